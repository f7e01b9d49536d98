"""A first produce and consume with an unchanged Kafka client: python3 first.py [host:port]"""

import sys
import time

from confluent_kafka import Consumer, Producer

settings = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}
topic = "shop.orders.orders"

# murmur2_random places a key where the Java client and TessariQL's BY place it.
producer = Producer({**settings, "partitioner": "murmur2_random"})
for customer, total in [("c-17", "120.00"), ("c-42", "8.50"), ("c-17", "33.10")]:
    producer.produce(topic, key=customer, value=total, headers={"source": b"web"})
if producer.flush(10):
    sys.exit("not everything was acknowledged")

consumer = Consumer({**settings, "group.id": "billing", "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
deadline, came, last = time.monotonic() + 30, 0, None
while came < 3:
    message = consumer.poll(1)
    if message is not None and not message.error():
        print(message.partition(), message.offset(), message.key(), message.value())
        came += 1
        continue
    # Such as a coordinator that has just moved: the client goes on by itself.
    last = message.error() if message else last
    if time.monotonic() > deadline:
        sys.exit(f"nothing came: {last}")
consumer.commit(asynchronous=False)
consumer.close()

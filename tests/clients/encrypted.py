"""Produces to, or consumes from, partition 0 of a topic over TLS with one stock client.

    encrypted.py CLIENT produce|consume BOOTSTRAP AUTHORITY TOPIC COUNT

The records are COUNT values of 100,000 bytes, each the repeated number of the record; what is consumed is checked.
"""

import asyncio
import ssl
import sys
import time

PATIENCE = 60
SIZE = 100_000


def value(number):
    text = b"%08d" % number
    return text * (SIZE // len(text))


def check(values):
    assert values == [value(n) for n in range(len(values))], "other values than were sent"


class Confluent:
    def config(self, bootstrap, authority):
        return {"bootstrap.servers": bootstrap, "security.protocol": "SSL", "ssl.ca.location": authority}

    def produce(self, bootstrap, authority, topic, count):
        from confluent_kafka import Producer

        producer = Producer(self.config(bootstrap, authority))
        failed = []
        for n in range(count):
            on_delivery = lambda error, _: error and failed.append(error)
            producer.produce(topic, value=value(n), partition=0, on_delivery=on_delivery)
        left = producer.flush(PATIENCE)
        assert not failed and not left, (failed, left)

    def consume(self, bootstrap, authority, topic, count):
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        config = self.config(bootstrap, authority) | {"group.id": "unused", "enable.auto.commit": False}
        consumer = Consumer(config)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        values, deadline = [], time.monotonic() + PATIENCE
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None:
                assert not message.error(), message.error()
                values.append(message.value())
        consumer.close()
        return values


class KafkaPython:
    def config(self, bootstrap, authority):
        return {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_cafile": authority}

    def produce(self, bootstrap, authority, topic, count):
        from kafka import KafkaProducer

        producer = KafkaProducer(**self.config(bootstrap, authority))
        sent = [producer.send(topic, value=value(n), partition=0) for n in range(count)]
        for future in sent:
            future.get(timeout=PATIENCE)
        producer.close()

    def consume(self, bootstrap, authority, topic, count):
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(consumer_timeout_ms=PATIENCE * 1000, **self.config(bootstrap, authority))
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        values = []
        for message in consumer:
            values.append(message.value)
            if len(values) == count:
                break
        consumer.close()
        return values


class Aiokafka:
    def config(self, bootstrap, authority):
        context = ssl.create_default_context(cafile=authority)
        return {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_context": context}

    def produce(self, bootstrap, authority, topic, count):
        from aiokafka import AIOKafkaProducer

        async def run():
            async with AIOKafkaProducer(**self.config(bootstrap, authority)) as producer:
                for n in range(count):
                    await producer.send_and_wait(topic, value(n), partition=0)

        asyncio.run(run())

    def consume(self, bootstrap, authority, topic, count):
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def run():
            consumer = AIOKafkaConsumer(**self.config(bootstrap, authority))
            await consumer.start()
            try:
                partition = TopicPartition(topic, 0)
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                return [(await asyncio.wait_for(consumer.getone(), PATIENCE)).value for _ in range(count)]
            finally:
                await consumer.stop()

        return asyncio.run(run())


CLIENTS = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}

if __name__ == "__main__":
    name, verb, bootstrap, authority, topic, count = sys.argv[1:]
    client, count = CLIENTS[name](), int(count)
    if verb == "produce":
        client.produce(bootstrap, authority, topic, count)
    else:
        values = client.consume(bootstrap, authority, topic, count)
        assert len(values) == count, len(values)
        check(values)

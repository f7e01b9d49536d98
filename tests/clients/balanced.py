"""Produces, and consumes in a group, through whatever happens to the members behind one address.

    balanced.py BOOTSTRAP TOPIC GROUP NAME PARTITIONS

Prints one JSON object a line: {"at": microseconds, ..} with one of `acked` ([[partition, offset, number]]), `sent`
(how many in all), `assigned` and `revoked` ([partition]), `read` ([[partition, offset, value]]), `committed`
([[partition, next offset]]), `failed` (why), `left`. A line on standard input ends producing, its end ends all.
"""

import json
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

BURST = 12
PAUSE = 0.1
COMMIT_EVERY = 0.3
# Where a group's coordinator changes.
TOLD = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE]
printing = threading.Lock()


def tell(**what):
    with printing:
        print(json.dumps({"at": time.time_ns() // 1000, **what}), flush=True)


def produce(bootstrap, topic, name, partitions, enough):
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "delivery.timeout.ms": 300000,
            "reconnect.backoff.max.ms": 500,
        }
    )
    acked = []

    def delivered(number):
        def told(error, message):
            if error is not None:
                tell(failed=f"{number} was not delivered: {error}")
            else:
                acked.append([message.partition(), message.offset(), number])

        return told

    def poll(seconds):
        producer.poll(seconds)
        if acked:
            tell(acked=acked)
            acked.clear()

    sent = 0
    while not enough.is_set():
        for _ in range(BURST):
            try:
                producer.produce(topic, f"{name}-{sent}", partition=sent % partitions, on_delivery=delivered(sent))
                sent += 1
            except BufferError:
                break
        poll(0)
        time.sleep(PAUSE)
    while len(producer):
        poll(0.1)
    poll(0)
    tell(sent=sent)


def consume(bootstrap, topic, group, end):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": "range",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
        }
    )
    pending = {}
    committed_at = time.monotonic()

    def commit():
        if not pending:
            return
        offsets = [TopicPartition(topic, partition, offset) for partition, offset in pending.items()]
        try:
            answer = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            print("not committed:", error, file=sys.stderr)
            return
        tell(committed=[[one.partition, one.offset] for one in answer if one.error is None])
        for one in answer:
            if one.error is None:
                pending.pop(one.partition)
            else:
                print("not committed:", one.partition, one.error, file=sys.stderr)

    def on_assign(_, partitions):
        tell(assigned=[one.partition for one in partitions])

    def on_revoke(_, partitions):
        commit()
        on_lost(_, partitions)

    def on_lost(_, partitions):
        for one in partitions:
            pending.pop(one.partition, None)
        tell(revoked=[one.partition for one in partitions])

    consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not end.is_set():
        read = []
        for message in consumer.consume(100, 0.1):
            if message.error():
                # Of what it tries again by itself, the client only tells.
                if message.error().retriable() or message.error().code() in TOLD:
                    print("consuming:", message.error(), file=sys.stderr)
                else:
                    tell(failed=f"consuming: {message.error()}")
                continue
            read.append([message.partition(), message.offset(), message.value().decode()])
            pending[message.partition()] = message.offset() + 1
        if read:
            tell(read=read)
        if time.monotonic() - committed_at > COMMIT_EVERY:
            commit()
            committed_at = time.monotonic()
    commit()
    consumer.close()


def main():
    bootstrap, topic, group, name, partitions = sys.argv[1:]
    enough, end = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=produce, args=(bootstrap, topic, name, int(partitions), enough)),
        threading.Thread(target=consume, args=(bootstrap, topic, group, end)),
    ]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    enough.set()
    sys.stdin.read()
    end.set()
    for thread in threads:
        thread.join()
    tell(left=True)


main()

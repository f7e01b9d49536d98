"""Produces or consumes given records with one stock client.

    exchange.py CLIENT produce|consume BOOTSTRAP < task

produce: [{"topic", "codec", "records": [{"partition", "key", "value", "headers": [[key, value]], "timestamp"}]}]
consume: [{"topic", "counts": [records in partition 0, ..]}], answered with [{"topic", "records": [.. and "offset"]}]
Texts are UTF-8 on the wire, null is null.
"""

import asyncio
import json
import sys
import time

PATIENCE = 60


def encoded(text):
    return None if text is None else text.encode()


def decoded(data):
    return None if data is None else bytes(data).decode()


def headers_out(headers):
    return [(key, encoded(value)) for key, value in headers]


def headers_in(headers):
    return [[key, decoded(value)] for key, value in headers or ()]


def seen(partition, offset, key, value, headers, timestamp):
    return {
        "partition": partition,
        "offset": offset,
        "key": decoded(key),
        "value": decoded(value),
        "headers": headers_in(headers),
        "timestamp": timestamp,
    }


class Confluent:
    def produce(self, bootstrap, topic, codec, records):
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50, "enable.idempotence": True}
        )
        failed = []
        for record in records:
            producer.produce(
                topic,
                key=encoded(record["key"]),
                value=encoded(record["value"]),
                partition=record["partition"],
                headers=headers_out(record["headers"]),
                timestamp=record["timestamp"],
                on_delivery=lambda error, _: error and failed.append(error),
            )
        left = producer.flush(PATIENCE)
        assert not failed and not left, (failed, left)

    def consume(self, bootstrap, topic, counts):
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(len(counts))])
        records = []
        deadline = time.monotonic() + PATIENCE
        while len(records) < sum(counts) and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            assert not message.error(), message.error()
            records.append(
                seen(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    message.headers(),
                    message.timestamp()[1],
                )
            )
        consumer.close()
        return records


class KafkaPython:
    def produce(self, bootstrap, topic, codec, records):
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
        )
        sent = [
            producer.send(
                topic,
                key=encoded(record["key"]),
                value=encoded(record["value"]),
                partition=record["partition"],
                headers=headers_out(record["headers"]),
                timestamp_ms=record["timestamp"],
            )
            for record in records
        ]
        for future in sent:
            future.get(PATIENCE)
        producer.close()

    def consume(self, bootstrap, topic, counts):
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        partitions = [TopicPartition(topic, n) for n in range(len(counts))]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        records = []
        deadline = time.monotonic() + PATIENCE
        while len(records) < sum(counts) and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=1000).values():
                for r in batch:
                    records.append(seen(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp))
        consumer.close()
        return records


class Aiokafka:
    def produce(self, bootstrap, topic, codec, records):
        asyncio.run(self._produce(bootstrap, topic, codec, records))

    async def _produce(self, bootstrap, topic, codec, records):
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    key=encoded(record["key"]),
                    value=encoded(record["value"]),
                    partition=record["partition"],
                    headers=headers_out(record["headers"]),
                    timestamp_ms=record["timestamp"],
                )
                for record in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE)
        finally:
            await producer.stop()

    def consume(self, bootstrap, topic, counts):
        return asyncio.run(self._consume(bootstrap, topic, counts))

    async def _consume(self, bootstrap, topic, counts):
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        try:
            partitions = [TopicPartition(topic, n) for n in range(len(counts))]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            records = []
            deadline = time.monotonic() + PATIENCE
            while len(records) < sum(counts) and time.monotonic() < deadline:
                for batch in (await consumer.getmany(timeout_ms=1000)).values():
                    for r in batch:
                        records.append(seen(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp))
            return records
        finally:
            await consumer.stop()


CLIENTS = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def main():
    name, verb, bootstrap = sys.argv[1:]
    client = CLIENTS[name]()
    tasks = json.load(sys.stdin)
    if verb == "produce":
        for task in tasks:
            client.produce(bootstrap, task["topic"], task["codec"], task["records"])
    else:
        answer = [
            {"topic": task["topic"], "records": client.consume(bootstrap, task["topic"], task["counts"])}
            for task in tasks
        ]
        json.dump(answer, sys.stdout)


main()

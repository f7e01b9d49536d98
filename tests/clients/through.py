"""Produces, consumes, and works as a consumer group, by one stock client that knows the address of one member.

    through.py CLIENT BOOTSTRAP TOPIC GROUP PARTITIONS COUNT

Sends the numbers below COUNT, each to partition NUMBER % PARTITIONS of an empty topic. Prints one JSON object: what was
"produced", as it was acknowledged, what was "read" without a group, and what the group read and "committed"; each a list
of [partition, offset, number] in the order in which the client was told.
"""

import asyncio
import json
import sys
import time

PATIENCE = 60


def seen(record):
    return [record.partition, record.offset, int(record.value)]


def confluent(bootstrap, topic, group, partitions, count):
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    def taken(message):
        return [message.partition(), message.offset(), int(message.value())]

    produced = []

    def told(error, message):
        assert error is None, error
        produced.append(taken(message))

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % partitions, on_delivery=told)
    assert producer.flush(PATIENCE) == 0

    def take(consumer):
        records, end = [], time.monotonic() + PATIENCE
        while len(records) < count and time.monotonic() < end:
            message = consumer.poll(0.5)
            if message is not None:
                assert not message.error(), message.error()
                records.append(taken(message))
        return records

    alone = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    alone.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
    read = take(alone)
    alone.close()
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe([topic])
    committed = take(member)
    member.commit(asynchronous=False)
    member.close()
    return produced, read, committed


def aiokafka(*task):
    return asyncio.run(aiokafka_through(*task))


async def aiokafka_through(bootstrap, topic, group, partitions, count):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=5)
    await producer.start()
    try:
        sent = [
            await producer.send(topic, str(number).encode(), partition=number % partitions) for number in range(count)
        ]
        answers = await asyncio.wait_for(asyncio.gather(*sent), PATIENCE)
    finally:
        await producer.stop()
    produced = [[answer.partition, answer.offset, number] for number, answer in enumerate(answers)]

    async def take(consumer):
        records, end = [], time.monotonic() + PATIENCE
        while len(records) < count and time.monotonic() < end:
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                records += map(seen, batch)
        return records

    alone = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await alone.start()
    try:
        assigned = [TopicPartition(topic, n) for n in range(partitions)]
        alone.assign(assigned)
        await alone.seek_to_beginning(*assigned)
        read = await take(alone)
    finally:
        await alone.stop()
    member = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await member.start()
    try:
        committed = await take(member)
        await member.commit()
    finally:
        await member.stop()
    return produced, read, committed


CLIENTS = {"confluent-kafka": confluent, "aiokafka": aiokafka}


def main():
    name, bootstrap, topic, group, partitions, count = sys.argv[1:]
    produced, read, committed = CLIENTS[name](bootstrap, topic, group, int(partitions), int(count))
    json.dump({"produced": produced, "read": read, "committed": committed}, sys.stdout)


main()

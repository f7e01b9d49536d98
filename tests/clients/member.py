"""One member of a consumer group, by one stock client, until its standard input ends.

    member.py CLIENT BOOTSTRAP TOPIC GROUP ASSIGNOR

Prints one JSON object a line: {"assigned": [partition]}, {"revoked": [partition]}, and {"committed": [[partition, offset, value]]}
for records whose commit was accepted: what was read but could not be committed is not told, whoever owns the partition next
reads it again. What the client logs goes to standard error.
"""

import asyncio
import json
import logging
import sys
import threading

BATCH = 20
SESSION_MS = 6000
HEARTBEAT_MS = 300


def tell(**what):
    print(json.dumps(what), flush=True)


class Pending:
    """Records read and not yet committed, by partition."""

    def __init__(self):
        self.records = {}

    def add(self, partition, offset, value):
        self.records.setdefault(partition, []).append([partition, offset, bytes(value).decode()])

    def __len__(self):
        return sum(map(len, self.records.values()))

    def next_offsets(self):
        return {partition: records[-1][1] + 1 for partition, records in self.records.items()}

    def committed(self):
        tell(committed=[record for records in self.records.values() for record in records])
        self.records.clear()

    def drop(self, partitions):
        for partition in partitions:
            self.records.pop(partition, None)


def confluent(bootstrap, topic, group, assignor, stop):
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    pending = Pending()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": assignor,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "debug": "cgrp",
        },
        logger=logging.getLogger("librdkafka"),
    )

    def commit():
        if not pending:
            return
        offsets = [TopicPartition(topic, n, offset) for n, offset in pending.next_offsets().items()]
        try:
            answer = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            print("not committed:", error, file=sys.stderr)
            return
        assert not any(one.error for one in answer), answer
        pending.committed()

    def on_assign(_, partitions):
        tell(assigned=[one.partition for one in partitions])

    def on_revoke(_, partitions):
        commit()
        pending.drop([one.partition for one in partitions])
        tell(revoked=[one.partition for one in partitions])

    def on_lost(_, partitions):
        pending.drop([one.partition for one in partitions])
        tell(revoked=[one.partition for one in partitions])

    consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None:
            assert not message.error(), message.error()
            pending.add(message.partition(), message.offset(), message.value())
        if message is None or len(pending) >= BATCH:
            commit()
    commit()
    consumer.close()


def kafka_python(bootstrap, topic, group, assignor, stop):
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

    pending = Pending()
    strategy = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[assignor]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        partition_assignment_strategy=[strategy],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )

    def commit():
        if not pending:
            return
        offsets = {
            TopicPartition(topic, n): OffsetAndMetadata(offset, "", -1) for n, offset in pending.next_offsets().items()
        }
        try:
            consumer.commit(offsets)
        except KafkaError as error:
            print("not committed:", error, file=sys.stderr)
            return
        pending.committed()

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            commit()
            pending.drop([one.partition for one in revoked])
            tell(revoked=[one.partition for one in revoked])

        def on_partitions_assigned(self, assigned):
            tell(assigned=[one.partition for one in assigned])

        def on_partitions_lost(self, lost):
            pending.drop([one.partition for one in lost])
            tell(revoked=[one.partition for one in lost])

    # Known before it joins. kafka-python 3.0.12 joins again by itself when it learns of the topic after it has shared out nothing,
    # and where the time of a poll runs out just then, between join and sync, it forgets the join and waits for ever.
    consumer.partitions_for_topic(topic)
    consumer.subscribe([topic], listener=Listener())
    while not stop.is_set():
        for batch in consumer.poll(timeout_ms=100, max_records=BATCH).values():
            for record in batch:
                pending.add(record.partition, record.offset, record.value)
        commit()
    commit()
    consumer.close()


def aiokafka(bootstrap, topic, group, assignor, stop):
    asyncio.run(aiokafka_member(bootstrap, topic, group, assignor, stop))


async def aiokafka_member(bootstrap, topic, group, assignor, stop):
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import IllegalStateError, KafkaError

    pending = Pending()
    # Rebalances run beside the loop below: whoever has this reads, or hands over.
    turn = asyncio.Lock()
    strategy = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[assignor]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        partition_assignment_strategy=[strategy],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )

    async def commit():
        if not pending:
            return
        try:
            await consumer.commit({TopicPartition(topic, n): offset for n, offset in pending.next_offsets().items()})
        except (KafkaError, IllegalStateError) as error:
            print("not committed:", error, file=sys.stderr)
            return
        pending.committed()

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            async with turn:
                await commit()
                pending.drop([one.partition for one in revoked])
                tell(revoked=[one.partition for one in revoked])

        async def on_partitions_assigned(self, assigned):
            tell(assigned=[one.partition for one in assigned])

    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    try:
        while not stop.is_set():
            async with turn:
                for batch in (await consumer.getmany(timeout_ms=100, max_records=BATCH)).values():
                    for record in batch:
                        pending.add(record.partition, record.offset, record.value)
                await commit()
            await asyncio.sleep(0)
        async with turn:
            await commit()
    finally:
        await consumer.stop()


CLIENTS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}


def main():
    name, bootstrap, topic, group, assignor = sys.argv[1:]
    # Shown by the test when it fails.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    stop = threading.Event()

    def wait_for_end():
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    CLIENTS[name](bootstrap, topic, group, assignor, stop)
    tell(left=True)


main()

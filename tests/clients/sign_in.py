"""Does what each line of standard input says, by one stock client, as the user it names.

    sign_in.py CLIENT BOOTSTRAP [AUTHORITY]

With an authority's certificate (PEM), under TLS. A line: ACTION, USER, PASSWORD, MECHANISM, TOPIC, GROUP, separated by tabs; the action is produce, consume, or try (to produce,
for what will not come to be: kafka-python tries on until its time is over). Prints `ok` with the value consumed, or the error's
name.
"""

import asyncio
import ssl
import sys
import time

PATIENCE = 60


class Confluent:
    def settings(self, bootstrap, user, password, mechanism):
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def produce(self, settings, topic):
        from confluent_kafka import KafkaException, Producer

        outcome = []
        producer = Producer({**settings, "error_cb": outcome.append, "enable.idempotence": False})
        producer.produce(topic, value=b"value", on_delivery=lambda error, _: outcome.append(error))
        end = time.monotonic() + PATIENCE
        while not self.decided(outcome) and time.monotonic() < end:
            producer.poll(0.1)
        producer.purge()
        self.raise_first(outcome, KafkaException)

    def consume(self, settings, topic, group):
        from confluent_kafka import Consumer, KafkaException

        errors = []
        consumer = Consumer(
            {**settings, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "error_cb": errors.append}
        )
        try:
            consumer.subscribe([topic])
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                message = consumer.poll(0.1)
                if message is not None:
                    if message.error():
                        raise KafkaException(message.error())
                    consumer.commit(message=message, asynchronous=False)
                    return message.value().decode()
                if self.decided(errors):
                    self.raise_first(errors, KafkaException)
            return "nothing"
        finally:
            consumer.close()

    def decided(self, outcomes):
        """A connection that broke is tried again; the reason comes as an error of its own."""
        from confluent_kafka import KafkaError

        passing = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
        return any(o is None or o.code() not in passing for o in outcomes)

    def raise_first(self, outcomes, kind):
        from confluent_kafka import KafkaError

        passing = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
        for outcome in outcomes:
            if outcome is None:
                return
            if outcome.code() not in passing:
                raise kind(outcome)

    def name(self, error):
        return error.args[0].name()


class KafkaPython:
    patience = PATIENCE

    def settings(self, bootstrap, user, password, mechanism):
        return {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }

    def produce(self, settings, topic):
        from kafka import KafkaProducer

        producer = KafkaProducer(**settings, enable_idempotence=False, max_block_ms=self.patience * 1000)
        try:
            producer.send(topic, b"value").get(timeout=self.patience)
        finally:
            producer.close(timeout=1)

    def consume(self, settings, topic, group):
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(**settings, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
        try:
            # Known before it joins, or it may forget its join: see kafka_python in member.py.
            consumer.partitions_for_topic(topic)
            consumer.subscribe([topic])
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                for records in consumer.poll(timeout_ms=200).values():
                    consumer.commit()
                    return records[0].value.decode()
            return "nothing"
        finally:
            consumer.close()

    def name(self, error):
        return type(error).__name__


class Aiokafka:
    def settings(self, bootstrap, user, password, mechanism):
        return KafkaPython().settings(bootstrap, user, password, mechanism)

    def produce(self, settings, topic):
        async def run():
            from aiokafka import AIOKafkaProducer

            producer = AIOKafkaProducer(**settings)
            await producer.start()
            try:
                await asyncio.wait_for(producer.send_and_wait(topic, b"value"), PATIENCE)
            finally:
                await producer.stop()

        asyncio.run(run())

    def consume(self, settings, topic, group):
        async def run():
            from aiokafka import AIOKafkaConsumer

            consumer = AIOKafkaConsumer(
                topic, **settings, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
            )
            await consumer.start()
            try:
                record = await asyncio.wait_for(consumer.getone(), PATIENCE)
                await consumer.commit()
                return record.value.decode()
            finally:
                await consumer.stop()

        return asyncio.run(run())

    def name(self, error):
        return type(error).__name__


CLIENTS = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def under_tls(client, authority):
    """What the client's settings are to say besides."""
    if client == "confluent-kafka":
        return {"security.protocol": "SASL_SSL", "ssl.ca.location": authority}
    return {"security_protocol": "SASL_SSL", "ssl_context": ssl.create_default_context(cafile=authority)}


def main():
    client = CLIENTS[sys.argv[1]]()
    besides = under_tls(sys.argv[1], sys.argv[3]) if len(sys.argv) > 3 else {}
    for line in sys.stdin:
        action, user, password, mechanism, topic, group = line.rstrip("\n").split("\t")
        settings = client.settings(sys.argv[2], user, password, mechanism) | besides
        try:
            client.patience = 3 if action == "try" else PATIENCE
            value = client.consume(settings, topic, group) if action == "consume" else client.produce(settings, topic)
            print("ok" if value is None else f"ok {value}", flush=True)
        except Exception as error:
            print(f"{error!r}", file=sys.stderr, flush=True)
            print(client.name(error), flush=True)


main()

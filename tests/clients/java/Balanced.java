import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces, and consumes in a group, through whatever happens to the members behind one address: as balanced.py does, with the
 * same arguments and the same lines.
 */
public class Balanced {
    private static final int BURST = 12;
    private static final long PAUSE_MS = 100;
    private static final long COMMIT_EVERY_MS = 300;

    private static void tell(String what) {
        synchronized (Balanced.class) {
            var at = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
            System.out.println("{\"at\": " + at + ", " + what + "}");
        }
    }

    private static void fail(String what, Throwable error) {
        var text = (what + ": " + error).replaceAll("[\"\\\\\\p{Cntrl}]", " ");
        tell("\"failed\": \"" + text + "\"");
    }

    public static void main(String[] a) throws Exception {
        var enough = new AtomicBoolean();
        var end = new AtomicBoolean();
        var threads = List.of(
                new Thread(() -> produce(a[0], a[1], a[3], Integer.parseInt(a[4]), enough)),
                new Thread(() -> consume(a[0], a[1], a[2], end)));
        threads.forEach(Thread::start);
        var in = new BufferedReader(new InputStreamReader(System.in));
        in.readLine();
        enough.set(true);
        while (in.readLine() != null) {}
        end.set(true);
        for (var thread : threads) {
            thread.join();
        }
        tell("\"left\": true");
    }

    private static void produce(String bootstrap, String topic, String name, int partitions, AtomicBoolean enough) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.idempotence", "true");
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("delivery.timeout.ms", "300000");
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        var sent = 0L;
        try (var producer = new KafkaProducer<String, String>(settings)) {
            while (!enough.get()) {
                for (var n = 0; n < BURST; n++) {
                    var number = sent++;
                    var record = new ProducerRecord<String, String>(
                            topic, (int) (number % partitions), null, name + "-" + number);
                    producer.send(record, (stored, error) -> {
                        if (error != null) {
                            fail(number + " was not delivered", error);
                        } else {
                            tell("\"acked\": [[" + stored.partition() + ", " + stored.offset() + ", " + number + "]]");
                        }
                    });
                }
                Thread.sleep(PAUSE_MS);
            }
            producer.flush();
        } catch (Exception error) {
            fail("producing", error);
        }
        tell("\"sent\": " + sent);
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(one -> String.valueOf(one.partition())).collect(Collectors.joining(", ", "[", "]"));
    }

    private static void consume(String bootstrap, String topic, String group, AtomicBoolean end) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        var pending = new HashMap<TopicPartition, OffsetAndMetadata>();
        try (var consumer = new KafkaConsumer<String, String>(settings)) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    tell("\"assigned\": " + numbers(partitions));
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    commit(consumer, pending);
                    onPartitionsLost(partitions);
                }

                @Override
                public void onPartitionsLost(Collection<TopicPartition> partitions) {
                    pending.keySet().removeAll(partitions);
                    tell("\"revoked\": " + numbers(partitions));
                }
            });
            var committedAt = System.nanoTime();
            while (!end.get()) {
                var read = new ArrayList<String>();
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    read.add("[" + record.partition() + ", " + record.offset() + ", \"" + record.value() + "\"]");
                    var partition = new TopicPartition(topic, record.partition());
                    pending.put(partition, new OffsetAndMetadata(record.offset() + 1));
                }
                if (!read.isEmpty()) {
                    tell("\"read\": [" + String.join(", ", read) + "]");
                }
                if (System.nanoTime() - committedAt > COMMIT_EVERY_MS * 1_000_000) {
                    commit(consumer, pending);
                    committedAt = System.nanoTime();
                }
            }
            commit(consumer, pending);
        } catch (Exception error) {
            fail("consuming", error);
        }
    }

    private static void commit(KafkaConsumer<String, String> consumer, Map<TopicPartition, OffsetAndMetadata> pending) {
        if (pending.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(pending);
        } catch (KafkaException error) {
            System.err.println("not committed: " + error);
            return;
        }
        tell(pending.entrySet().stream()
                .map(one -> "[" + one.getKey().partition() + ", " + one.getValue().offset() + "]")
                .collect(Collectors.joining(", ", "\"committed\": [", "]")));
        pending.clear();
    }
}

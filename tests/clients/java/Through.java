import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces, consumes, and works as a consumer group through one member, as tests/clients/through.py does.
 *
 * <p>java Through.java BOOTSTRAP TOPIC GROUP PARTITIONS COUNT
 */
public class Through {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        var bootstrap = arguments[0];
        var topic = arguments[1];
        var partitions = Integer.parseInt(arguments[3]);
        var count = Integer.parseInt(arguments[4]);
        var produced = produce(bootstrap, topic, partitions, count);
        List<String> read;
        try (var consumer = consumer(bootstrap, null)) {
            var assigned = new ArrayList<TopicPartition>();
            for (var partition = 0; partition < partitions; partition++) {
                assigned.add(new TopicPartition(topic, partition));
            }
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            read = take(consumer, count);
        }
        List<String> committed;
        try (var consumer = consumer(bootstrap, arguments[2])) {
            consumer.subscribe(List.of(topic));
            committed = take(consumer, count);
            consumer.commitSync();
        }
        System.out.println("{\"produced\":" + produced + ",\"read\":" + read + ",\"committed\":" + committed + "}");
    }

    private static Properties settings(String bootstrap) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }

    private static String record(int partition, long offset, Object number) {
        return "[" + partition + "," + offset + "," + number + "]";
    }

    private static List<String> produce(String bootstrap, String topic, int partitions, int count) throws Exception {
        var settings = settings(bootstrap);
        settings.put("enable.idempotence", "true");
        settings.put("linger.ms", "5");
        var told = new ArrayList<String>();
        try (var producer = new KafkaProducer<String, String>(settings)) {
            var sent = new ArrayList<Future<RecordMetadata>>();
            for (var number = 0; number < count; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, number % partitions, null, String.valueOf(number))));
            }
            for (var number = 0; number < count; number++) {
                var stored = sent.get(number).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
                told.add(record(stored.partition(), stored.offset(), number));
            }
        }
        return told;
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        var settings = settings(bootstrap);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (group != null) {
            settings.put("group.id", group);
        }
        return new KafkaConsumer<>(settings);
    }

    private static List<String> take(KafkaConsumer<String, String> consumer, int count) {
        var records = new ArrayList<String>();
        var end = System.nanoTime() + PATIENCE.toNanos();
        while (records.size() < count && System.nanoTime() < end) {
            for (var record : consumer.poll(Duration.ofMillis(500))) {
                records.add(record(record.partition(), record.offset(), record.value()));
            }
        }
        return records;
    }
}

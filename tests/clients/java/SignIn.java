import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Does what each line of standard input says, as the user it names, and prints `ok` with what came, or the exception's name.
 *
 * <p>java SignIn.java BOOTSTRAP [AUTHORITY]; with an authority's certificate (PEM), under TLS. A line: ACTION, USER, PASSWORD, MECHANISM, TOPIC, GROUP, separated by tabs.
 */
public class SignIn {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (var line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(outcome(arguments, line.split("\t", -1)));
        }
    }

    private static String outcome(String[] node, String[] task) {
        try {
            var found = act(node, task[0], task[1], task[2], task[3], task[4], task[5]);
            return found.isEmpty() ? "ok" : "ok " + found;
        } catch (ExecutionException wrapped) {
            return name(wrapped.getCause());
        } catch (Exception error) {
            // Producers wrap what stops them.
            return name(error.getCause() == null ? error : error.getCause());
        }
    }

    private static String name(Throwable error) {
        System.err.println(error);
        return error.getClass().getSimpleName();
    }

    private static String act(
            String[] node, String action, String user, String password, String mechanism, String topic, String group)
            throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", node[0]);
        settings.put("security.protocol", node.length > 1 ? "SASL_SSL" : "SASL_PLAINTEXT");
        if (node.length > 1) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", node[1]);
        }
        settings.put("sasl.mechanism", mechanism);
        var module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        settings.put(
                "sasl.jaas.config",
                "org.apache.kafka.common.security." + module + " required username=\"" + user + "\" password=\"" + password + "\";");
        switch (action) {
            case "describe-cluster", "create-topic", "delete-topic", "describe-acls", "describe-topic", "list-topics",
                    "describe-configs", "describe-group", "list-offsets" -> {
                try (var admin = Admin.create(settings)) {
                    return admin(admin, action, topic, group);
                }
            }
            case "produce" -> {
                return produce(settings, topic, true);
            }
            case "produce-plainly" -> {
                return produce(settings, topic, false);
            }
            case "consume", "subscribe" -> {
                return consume(settings, topic, group, action.equals("subscribe"));
            }
            case "keep-producing" -> {
                return keepProducing(settings, topic, Integer.parseInt(group));
            }
            default -> throw new IllegalArgumentException(action);
        }
    }

    private static String admin(Admin admin, String action, String topic, String group) throws Exception {
        switch (action) {
            case "describe-cluster":
                return done(admin.describeCluster().nodes()).size() + " nodes";
            case "create-topic":
                done(admin.createTopics(List.of(new NewTopic(topic, 1, (short) -1))).all());
                return "";
            case "delete-topic":
                done(admin.deleteTopics(List.of(topic)).all());
                return "";
            case "describe-acls":
                var rules = done(admin.describeAcls(AclBindingFilter.ANY).values());
                return rules.stream().map(rule -> rule.entry().principal()).sorted().distinct().toList().toString();
            case "describe-topic":
                return done(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size() + " partitions";
            case "list-topics":
                return done(admin.listTopics().names()).stream().sorted().toList().toString();
            case "describe-configs":
                var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
                return done(admin.describeConfigs(List.of(resource)).all()).get(resource).get("cleanup.policy").value();
            case "describe-group":
                done(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
                return "";
            case "list-offsets":
                var partition = new TopicPartition(topic, 0);
                var spec = org.apache.kafka.clients.admin.OffsetSpec.latest();
                done(admin.listOffsets(Map.of(partition, spec)).all());
                return "";
            default:
                throw new IllegalArgumentException(action);
        }
    }

    private static <T> T done(Future<T> future) throws Exception {
        return future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    private static KafkaProducer<String, String> producer(Properties settings, boolean idempotent) {
        settings.put("enable.idempotence", String.valueOf(idempotent));
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        return new KafkaProducer<>(settings);
    }

    private static String produce(Properties settings, String topic, boolean idempotent) throws Exception {
        try (var producer = producer(settings, idempotent)) {
            RecordMetadata stored = done(producer.send(new ProducerRecord<>(topic, "value")));
            return "offset " + stored.offset();
        }
    }

    /** One record after the other, until the producer has signed in again so many times. */
    private static String keepProducing(Properties settings, String topic, int times) throws Exception {
        settings.put("retries", "0");
        settings.put("delivery.timeout.ms", "60000");
        try (var producer = producer(settings, false)) {
            var end = System.nanoTime() + PATIENCE.toNanos();
            while (System.nanoTime() < end) {
                done(producer.send(new ProducerRecord<>(topic, "value")));
                var again = producer.metrics().entrySet().stream()
                        .filter(metric -> metric.getKey().name().equals("successful-reauthentication-total"))
                        .mapToDouble(metric -> (Double) metric.getValue().metricValue())
                        .sum();
                if (again >= times) {
                    return "signed in again";
                }
                Thread.sleep(20);
            }
            return "not signed in again";
        }
    }

    private static String consume(Properties settings, String topic, String group, boolean subscribe) throws Exception {
        if (!group.isEmpty()) {
            settings.put("group.id", group);
        }
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        try (var consumer = new KafkaConsumer<String, String>(settings)) {
            if (subscribe) {
                consumer.subscribe(List.of(topic));
            } else {
                var partition = new TopicPartition(topic, 0);
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
            }
            var end = System.nanoTime() + PATIENCE.toNanos();
            while (System.nanoTime() < end) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    if (!group.isEmpty()) {
                        consumer.commitSync();
                    }
                    return record.value();
                }
            }
            return "nothing";
        }
    }
}

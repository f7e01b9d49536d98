// Writes java.json in this folder with Apache Kafka's own client library:
//   java -cp 'kafka-clients.jar' PlaceKeys.java <this folder>
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.StringJoiner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

public class PlaceKeys {
    public static void main(String[] args) throws Exception {
        String[] texts = {"c-", "schl\u00fcssel-", "\u30ad\u30fc", "\ud83d\ude00", "k", "a longer key, with 'quotes' and \\\\ in it "};
        StringJoiner out = new StringJoiner(",\n", "[\n", "\n]\n");
        for (int n = 0; n < 1000; n++) {
            String key = texts[n % texts.length] + n * 7919;
            byte[] bytes = key.replace("\\\\", "\\").getBytes(StandardCharsets.UTF_8);
            out.add("{\"key\": \"" + key + "\", \"partition\": " + BuiltInPartitioner.partitionForKey(bytes, 7) + "}");
        }
        Files.writeString(Path.of(args[0], "java.json"), out.toString());
    }
}

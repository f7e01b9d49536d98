import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashSet;
import java.util.Random;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Prints 1,000 keys and the partitions the Java client puts them in, of 3, 12 and 1,000. */
public class Placement {
    public static void main(String[] args) {
        Random random = new Random(17);
        String[] letters = {"abcxyz0189-_. ", "äöüßéèñç", "абвгджя", "注文顧客番号", "🦀🧾🚚", "אבגد هو"};
        LinkedHashSet<String> keys = new LinkedHashSet<>();
        for (int n = 0; keys.size() < 200; n++) {
            keys.add("c-" + n);
        }
        while (keys.size() < 1000) {
            StringBuilder key = new StringBuilder();
            int[] of = letters[random.nextInt(letters.length)].codePoints().toArray();
            for (int left = 1 + random.nextInt(24); left > 0; left--) {
                key.appendCodePoint(of[random.nextInt(of.length)]);
            }
            keys.add(key.toString());
        }
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String key : keys) {
            byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
            out.printf("%s\t%d\t%d\t%d%n", key, BuiltInPartitioner.partitionForKey(bytes, 3),
                BuiltInPartitioner.partitionForKey(bytes, 12), BuiltInPartitioner.partitionForKey(bytes, 1000));
        }
    }
}

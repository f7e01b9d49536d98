// Writes the batches in this folder with Apache Kafka's own client library:
//   java -cp 'kafka-clients.jar:snappy-java.jar:lz4-java.jar:zstd-jni.jar' GoldenBatches.java <this folder>
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

public class GoldenBatches {
    public static void main(String[] args) throws Exception {
        for (CompressionType type : CompressionType.values()) {
            ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.MAGIC_VALUE_V2,
                Compression.of(type).build(), TimestampType.CREATE_TIME, 0L, RecordBatch.NO_TIMESTAMP,
                4000L, (short) 3, 17, false, RecordBatch.NO_PARTITION_LEADER_EPOCH);
            for (int n = 0; n < 100; n++) {
                byte[] key = n % 4 == 0 ? null : ("schl\u00fcssel-" + n).getBytes(StandardCharsets.UTF_8);
                byte[] value = n % 5 == 0 ? null : "0123456789".repeat(n).getBytes(StandardCharsets.UTF_8);
                Header[] headers = new Header[n % 3];
                for (int h = 0; h < headers.length; h++) {
                    headers[h] = new RecordHeader("same", h == 0 ? new byte[] {(byte) n} : null);
                }
                builder.append(1_790_000_000_000L + (n % 7) * 1000L, key, value, headers);
            }
            MemoryRecords records = builder.build();
            byte[] out = new byte[records.sizeInBytes()];
            records.buffer().get(out);
            Files.write(Path.of(args[0], "java-" + type.name + ".bin"), out);
        }
    }
}

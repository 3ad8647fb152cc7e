import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.tensorflow.hadoop.util.TFRecordReader;
import org.tensorflow.hadoop.util.TFRecordWriter;

/** Copies TFRecord files by the classes of tensorflow-hadoop: arguments are pairs of paths. */
public class OldRecords {
    public static void main(String[] paths) throws IOException {
        String place = TFRecordReader.class.getProtectionDomain().getCodeSource().getLocation().toString();
        if (!place.contains("tensorflow-hadoop")) {
            throw new AssertionError("these are not the old classes: " + place);
        }
        for (int i = 0; i < paths.length; i += 2) {
            try (InputStream input = Files.newInputStream(Path.of(paths[i]));
                    DataOutputStream output = new DataOutputStream(Files.newOutputStream(Path.of(paths[i + 1])))) {
                TFRecordReader reader = new TFRecordReader(input, true);
                TFRecordWriter writer = new TFRecordWriter(output);
                for (byte[] record = reader.read(); record != null; record = reader.read()) {
                    writer.write(record);
                }
            }
        }
    }
}

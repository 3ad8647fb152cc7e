package org.tfos;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutput;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tensorflow.hadoop.util.Crc32C;
import org.tensorflow.hadoop.util.TFRecordReader;
import org.tensorflow.hadoop.util.TFRecordWriter;

/** Records through Java, and against the old Java classes, byte for byte. */
class RecordsTest {
    private static final String SCHEMA =
            "{\"type\":\"struct\",\"fields\":[{\"name\":\"record\",\"type\":\"binary\",\"nullable\":true}]}";
    private static final String BYTES = "{\"recordType\":\"ByteArray\"}";

    @TempDir
    Path folder;

    private static List<byte[]> someRecords() {
        Random random = new Random(7);
        List<byte[]> records = new ArrayList<>();
        for (int i = 0; i < 2000; i++) {
            byte[] record = new byte[random.nextInt(i % 100 == 0 ? 100_000 : 300)];
            random.nextBytes(record);
            records.add(record);
        }
        return records;
    }

    private static List<byte[]> read(String path, ServedFiles files) {
        List<byte[]> records = new ArrayList<>();
        try (RecordTable table = new RecordTable(BYTES);
                RecordInput input = new RecordInput(table, path, 0, 0, -1, SCHEMA, 1, files)) {
            for (int rows = input.next(); rows > 0; rows = input.next()) {
                ByteBuffer offsets = input.memory(input.words()[2], 4L * (rows + 1));
                ByteBuffer data = input.memory(input.words()[3], offsets.getInt(4 * rows));
                for (int i = 0; i < rows; i++) {
                    byte[] record = new byte[offsets.getInt(4 * i + 4) - offsets.getInt(4 * i)];
                    data.position(offsets.getInt(4 * i));
                    data.get(record);
                    records.add(record);
                }
            }
        }
        return records;
    }

    private static void write(String path, List<byte[]> records, ServedFiles files) {
        try (RecordTable table = new RecordTable(BYTES);
                RecordOutput output = new RecordOutput(table, path, files)) {
            for (byte[] record : records) {
                output.write(record, 0, record.length);
            }
            output.finish();
        }
    }

    private static void assertSame(List<byte[]> expected, List<byte[]> found) {
        assertEquals(expected.size(), found.size());
        for (int i = 0; i < expected.size(); i++) {
            assertArrayEquals(expected.get(i), found.get(i));
        }
    }

    // ---- the old classes ----

    /** They need a class of Hadoop's. */
    private static URLClassLoader old() throws IOException {
        List<URL> places = new ArrayList<>();
        for (String place : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (place.contains("tensorflow-hadoop") || place.contains("hadoop-client-api")) {
                places.add(Path.of(place).toUri().toURL());
            }
        }
        assertEquals(2, places.size());
        return new URLClassLoader(places.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    }

    @Test
    void theOldReaderReadsWhatWeWrite() throws Exception {
        String path = folder.resolve("ours").toString();
        List<byte[]> records = someRecords();
        write(path, records, null);
        List<byte[]> found = new ArrayList<>();
        try (URLClassLoader loader = old();
                InputStream bytes = Files.newInputStream(Path.of(path))) {
            Class<?> type = loader.loadClass("org.tensorflow.hadoop.util.TFRecordReader");
            Object reader =
                    type.getConstructor(InputStream.class, boolean.class).newInstance(bytes, true);
            Method read = type.getMethod("read");
            for (byte[] next = (byte[]) read.invoke(reader); next != null; next = (byte[]) read.invoke(reader)) {
                found.add(next);
            }
        }
        assertSame(records, found);
    }

    @Test
    void weReadWhatTheOldWriterWritesAndWriteTheSameBytes() throws Exception {
        List<byte[]> records = someRecords();
        ByteArrayOutputStream theirs = new ByteArrayOutputStream();
        ByteArrayOutputStream javas = new ByteArrayOutputStream();
        TFRecordWriter ours = new TFRecordWriter(new DataOutputStream(javas));
        try (URLClassLoader loader = old()) {
            Class<?> type = loader.loadClass("org.tensorflow.hadoop.util.TFRecordWriter");
            Object writer = type.getConstructor(DataOutput.class).newInstance(new DataOutputStream(theirs));
            Method write = type.getMethod("write", byte[].class);
            for (byte[] record : records) {
                write.invoke(writer, (Object) record);
                ours.write(record);
            }
        }
        Path path = folder.resolve("theirs");
        Files.write(path, theirs.toByteArray());
        assertSame(records, read(path.toString(), null));
        assertArrayEquals(theirs.toByteArray(), javas.toByteArray());
        Path native_ = folder.resolve("native");
        write(native_.toString(), records, null);
        assertArrayEquals(theirs.toByteArray(), Files.readAllBytes(native_));
        TFRecordReader reader = new TFRecordReader(new ByteArrayInputStream(theirs.toByteArray()), true);
        for (byte[] record : records) {
            assertArrayEquals(record, reader.read());
        }
        assertNull(reader.read());
    }

    @Test
    void checksumsAreThoseOfTheOldClass() throws Exception {
        try (URLClassLoader loader = old()) {
            Method theirs = loader.loadClass("org.tensorflow.hadoop.util.Crc32C")
                    .getMethod("maskedCrc32c", byte[].class);
            for (byte[] record : someRecords().subList(0, 100)) {
                int masked = Crc32C.maskedCrc32c(record);
                assertEquals(theirs.invoke(null, (Object) record), masked);
                assertEquals(masked, Crc32C.mask(Crc32C.unmask(masked)));
            }
        }
    }

    /** The old one takes a header that is cut short for the end of the file, and rows are lost without a word. */
    @Test
    void everyCutIsAnError() throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        new TFRecordWriter(new DataOutputStream(bytes)).write("a record".getBytes());
        byte[] whole = bytes.toByteArray();
        for (int cut = 1; cut < whole.length; cut++) {
            TFRecordReader reader = new TFRecordReader(new ByteArrayInputStream(Arrays.copyOf(whole, cut)), true);
            assertTrue(assertThrows(EOFException.class, reader::read).getMessage().contains("offset 0"));
        }
        for (int at = 0; at < whole.length; at++) {
            byte[] damaged = whole.clone();
            damaged[at] ^= 1;
            TFRecordReader reader = new TFRecordReader(new ByteArrayInputStream(damaged), true);
            assertThrows(IOException.class, reader::read);
        }
    }

    // ---- files that Java serves ----

    /** Serves what is below the folder as "java:/NAME", a few bytes at a time. */
    private final class Played implements ServedFiles {
        private boolean fails;
        private int open;

        @Override
        public Input open(String path) throws IOException {
            byte[] all = Files.readAllBytes(folder.resolve(path.substring("java:/".length())));
            open++;
            return new Input() {
                @Override
                public long size() {
                    return all.length;
                }

                @Override
                public int read(long offset, ByteBuffer to) throws IOException {
                    if (fails && offset > 100_000) {
                        throw new IOException("the player stumbles");
                    }
                    int count = (int) Math.min(Math.min(to.remaining(), 70_000), all.length - offset);
                    to.put(all, (int) offset, count);
                    return count;
                }

                @Override
                public void close() {
                    open--;
                }
            };
        }

        @Override
        public Output create(String path, boolean overwrite) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            return new Output() {
                @Override
                public void write(ByteBuffer more) {
                    byte[] copy = new byte[more.remaining()];
                    more.get(copy);
                    bytes.writeBytes(copy);
                }

                @Override
                public void finish() throws IOException {
                    Files.write(folder.resolve(path.substring("java:/".length())), bytes.toByteArray());
                }

                @Override
                public void abandon() {}
            };
        }

        @Override
        public boolean interrupted() {
            return false;
        }
    }

    @Test
    void filesThatJavaServes() {
        Played played = new Played();
        List<byte[]> records = someRecords();
        write("java:/x", records, played);
        assertSame(records, read("java:/x", played));
        assertEquals(0, played.open);
        played.fails = true;
        TfosException failure = assertThrows(TfosException.class, () -> read("java:/x", played));
        assertEquals(Status.RAISED, failure.status());
        assertTrue(failure.getMessage().contains("the player stumbles"));
        assertEquals(0, played.open);
    }

    /** Whoever serves files can be wrong; the process survives. */
    @Test
    void filesThatAreServedBadly() {
        class Bad implements ServedFiles {
            @Override
            public Input open(String path) {
                if (path.endsWith("none")) {
                    return null;
                }
                return new Input() {
                    @Override
                    public long size() {
                        if (path.endsWith("sizeless")) {
                            throw new IllegalStateException("of no size");
                        }
                        return 1000;
                    }

                    @Override
                    public int read(long offset, ByteBuffer to) {
                        return Integer.MAX_VALUE;
                    }

                    @Override
                    public void close() {}
                };
            }

            @Override
            public Output create(String path, boolean overwrite) {
                return null;
            }

            @Override
            public boolean interrupted() {
                return false;
            }
        }
        Bad bad = new Bad();
        assertTrue(assertThrows(TfosException.class, () -> read("java:/none", bad))
                .getMessage()
                .contains("has returned no file"));
        assertTrue(assertThrows(TfosException.class, () -> read("java:/much", bad))
                .getMessage()
                .contains("more bytes than there was room for"));
        assertTrue(assertThrows(TfosException.class, () -> read("java:/sizeless", bad))
                .getMessage()
                .contains("of no size"));
        assertTrue(assertThrows(TfosException.class, () -> write("java:/x", someRecords(), bad))
                .getMessage()
                .contains("has returned no file"));
    }

    @Test
    void whatWasNotFinishedIsNotThere() {
        Path path = folder.resolve("x");
        try (RecordTable table = new RecordTable(BYTES);
                RecordOutput output = new RecordOutput(table, path.toString(), null)) {
            output.write(new byte[10], 0, 10);
        }
        assertFalse(Files.exists(path));
        assertEquals(0, folder.toFile().list().length);
    }

    @Test
    void optionsAndTables() {
        try (RecordTable table = new RecordTable("{\"CODEC\":\"gzip\",\"somebody's\":\"else\"}")) {
            assertEquals(".tfrecord.gz", table.ending());
            assertFalse(table.splits("part-0"));
            assertEquals("example", table.record());
        }
        try (RecordTable table = new RecordTable("{}")) {
            assertTrue(table.splits("part-0.tfrecord"));
            assertFalse(table.splits("part-0.tfrecord.gz"));
        }
        assertFalse(RecordTable.holds("part-0.tfrecord.tfindex"));
        TfosException failure =
                assertThrows(TfosException.class, () -> new RecordTable("{\"codec\":\"lz4\"}"));
        assertTrue(failure.getMessage().contains("option codec: expected none, gzip or zlib, found 'lz4'"));
    }
}

package org.tfos;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Locale;

/**
 * The native library: all JNI methods, and how they are loaded.
 *
 * <p>The jar carries the libraries. They are unpacked into a folder of their own, loaded, and deleted at once, so that
 * nothing is left behind, whichever way the process ends. The folder is made in the system property {@code
 * org.tfos.native.dir}, else in the environment variable {@code TFOS_NATIVE_DIR}, else in {@code java.io.tmpdir}.
 */
public final class Native {
    private static final String[] LIBRARIES = {"libtfos.so", "libtfosjni.so"};
    private static boolean loaded;

    private Native() {}

    /** The version of the native library. */
    public static String version() {
        load();
        return loadedVersion();
    }

    /** The name that the native library gives to a status number. */
    public static String statusName(int status) {
        load();
        return nameOfStatus(status);
    }

    /** What the native library says that a status number means. */
    public static String statusText(int status) {
        load();
        return textOfStatus(status);
    }

    /** The name that the native library gives to a fault, by its number. */
    public static String faultName(int fault) {
        load();
        return nameOfFault(fault);
    }

    /** Loads the native library unless this class loader has done so. After a failure, the next call tries again. */
    public static synchronized void load() {
        if (loaded) {
            return;
        }
        Path folder = makeFolder();
        try {
            for (String library : LIBRARIES) {
                unpack(library, folder);
            }
            // The dynamic linker finds libtfos.so beside it. A second class loader shares the libtfos.so of the first.
            System.load(folder.resolve("libtfosjni.so").toString());
        } catch (UnsatisfiedLinkError e) {
            throw new TfosException(
                    Status.MISSING_LIBRARY,
                    "cannot load the native library from " + folder + ": " + e.getMessage()
                            + ". If that folder forbids running programs (noexec), set TFOS_NATIVE_DIR or"
                            + " -Dorg.tfos.native.dir to one that allows it.",
                    e);
        } finally {
            remove(folder);
        }
        checkVersion();
        loaded = true;
    }

    private static void checkVersion() {
        if (!builtVersion().equals(loadedVersion())) {
            throw new TfosException(
                    Status.UNSUPPORTED,
                    "this jar is version " + builtVersion() + ", but the process has already loaded libtfos "
                            + loadedVersion() + " from another one. Leave one version of the jar on the class path.");
        }
    }

    private static Path makeFolder() {
        String parent = System.getProperty("org.tfos.native.dir", System.getenv("TFOS_NATIVE_DIR"));
        if (parent == null || parent.isEmpty()) {
            parent = System.getProperty("java.io.tmpdir");
        }
        try {
            return Files.createTempDirectory(Paths.get(parent).toAbsolutePath(), "tfos-");
        } catch (IOException e) {
            throw new TfosException(
                    Status.IO,
                    "cannot make a folder in " + parent + " to unpack the native library: " + e
                            + ". Set TFOS_NATIVE_DIR or -Dorg.tfos.native.dir to a folder that can be written.",
                    e);
        }
    }

    private static void unpack(String library, Path folder) {
        String resource = "native/" + platform() + "/" + library;
        try (InputStream in = Native.class.getResourceAsStream(resource)) {
            if (in == null) {
                throw new TfosException(
                        Status.UNSUPPORTED,
                        "this jar has no native library for " + platform() + " (org/tfos/" + resource + ")."
                                + " Build tfos on such a machine, or use a jar that has it.");
            }
            Files.copy(in, folder.resolve(library));
        } catch (IOException e) {
            throw new TfosException(
                    Status.IO, "cannot unpack " + library + " to " + folder + ": " + e + ". Is the disk full?", e);
        }
    }

    /** For example {@code linux-x86_64}, by the names of the machine that CMake uses. */
    private static String platform() {
        String machine = System.getProperty("os.arch");
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        return system + "-" + (machine.equals("amd64") ? "x86_64" : machine);
    }

    private static void remove(Path folder) {
        try {
            for (String library : LIBRARIES) {
                Files.deleteIfExists(folder.resolve(library));
            }
            Files.delete(folder);
        } catch (IOException e) {
            throw new TfosException(Status.IO, "cannot remove " + folder + ": " + e + ". Remove it by hand.", e);
        }
    }

    private static native String loadedVersion();

    private static native String builtVersion();

    private static native String nameOfStatus(int status);

    private static native String textOfStatus(int status);

    private static native String nameOfFault(int fault);

    /** How native methods fail. */
    private static void fail(int status, int fault, byte[] message) {
        throw new TfosException(Status.of(status), Fault.of(fault), textOf(message), null);
    }

    /** Text that has crossed as bytes. */
    static String textOf(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }

    /** What a method that was called back has thrown: its status, its fault and, behind these two bytes, a text. */
    private static byte[] describe(Throwable thrown) {
        TfosException failure = thrown instanceof TfosException
                ? (TfosException) thrown
                : new TfosException(Status.RAISED, thrown.toString());
        byte[] text = failure.reason().getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(2 + text.length)
                .put((byte) failure.status().value())
                .put((byte) failure.fault().value())
                .put(text)
                .array();
    }

    // Rows of Spark: see org.tfos.spark.SparkRows, and tfos/spark.h. Texts are UTF-8.

    public static native long rowsNew(byte[] description);

    /** The address of a block of so many bytes for the rows to be appended; the one before it is freed. */
    public static native long rowsBlock(long rows, long bytes);

    public static native byte[] rowsSchema(long rows);

    /** How many bytes at the beginning of {@code block} were appended. */
    public static native long rowsAppend(long rows, long block, long bytes);

    public static native void rowsCheck(long rows, long head);

    public static native void rowsRefuse(long rows, int column, long bytes);

    /**
     * Five numbers for each column: those of tfos_spark_form, the first as JNI's letter for it. Null: a column cannot
     * come in vectors.
     */
    public static native long[] rowsForms(long rows);

    /**
     * How many rows of vectors were appended.
     *
     * @param words length, values, offsets, nulls of each column, followed by those of what is in its lists
     */
    public static native long rowsAppendColumns(long rows, long[] words, long first, long count);

    public static native void rowsSkip(long rows, long count);

    public static native long rowsCount(long rows);

    public static native boolean rowsFull(long rows);

    public static native void rowsFree(long rows);

    // Rows for Spark: see org.tfos.spark.RowWriter, and tfos/spark.h.

    public static native long writerNew(byte[] schema);

    /** The address of the rows that were written last … */
    public static native long writerBlock(long writer);

    /** … and how many bytes they have. */
    public static native long writerBytes(long writer);

    public static native void writerFree(long writer);

    // Records: see RecordTable, RecordInput, RecordOutput, and tfos/table.h.

    static native long tableNew(byte[] options);

    static native byte[] tableEnding(long table);

    static native boolean tableSplits(long table, byte[] path);

    static native boolean tableHolds(byte[] path);

    static native void tableCheck(long table, byte[] schema);

    static native byte[] tableRecord(long table);

    static native boolean tableSkips(long table);

    static native long tableSample(long table);

    /** @param ranges size, start and end of each path */
    static native byte[] tableSurvey(long table, byte[][] paths, long[] ranges, ServedFiles files);

    static native byte[] tableSchema(long table, byte[][] surveys);

    static native void tableFree(long table);

    static native long readerOpen(
            long table, byte[] path, long bytes, long start, long end, byte[] schema, ServedFiles files);

    /** How many rows came, and in {@code words} where they are: see {@link RecordInput#WORDS}. */
    static native long readerNext(long reader, long[] words);

    /** Bytes that were read, records, records that were skipped, bytes that were skipped. */
    static native long[] readerProgress(long reader);

    static native ByteBuffer readerMemory(long reader, long begin, long bytes);

    static native void readerClose(long reader);

    static native long outputOpen(long table, byte[] path, ServedFiles files);

    static native void outputRows(long output, long rows);

    static native void outputRecord(long output, byte[] record, int offset, int count);

    static native void outputFinish(long output);

    static native void outputFree(long output);

    // SavedModels: see org.tfos.spark.ModelPlan, and tfos/model.h.

    /**
     * The columns that are fed, what is declared for them, the schema of results, the order for tasks, and the rows of
     * a batch, or -1.
     */
    public static native byte[][] modelPlan(
            byte[] folder, byte[] tags, byte[] order, byte[] schema, ServedFiles files);

    // Feeding: see org.tfos.spark.Pump, and tfos/feed.h.

    /** 0 stands for END. */
    public static native long pumpOpen(
            byte[] ticket, long partition, long attempt, byte[] host, long rows, PumpSource source);

    /** Feeds a process on this machine: see org.tfos.spark.ModelProcess. */
    public static native long pumpOpenLine(
            byte[] name, byte[] token, byte[] order, long partition, long rows, PumpSource source);

    public static native void pumpRun(long pump, PumpSource source);

    /** Whether results were written to {@code writer}. */
    public static native boolean pumpResults(long pump, long writer, long first, PumpSource source);

    public static native byte[] pumpResultSchema(long pump, PumpSource source);

    public static native void pumpClose(long pump);

    // Drivers: see Driver, and tfos/driver.h.

    /**
     * @param texts command, folder, host, context, application and payload, as tfos_cluster_options and
     *     tfos_driver_options have them; null for none
     * @param lists program, environment, tensorboard and settings
     */
    static native long driverOpen(
            byte[][] texts, byte[][][] lists, int nodes, int restarts, int gpus, boolean sparkFeeds, long timeoutMs);

    static native void driverClose(long driver);

    /** Texts and bytes of an order, and in {@code numbers} the rest of it: see {@link DriverOrder}. Null: END. */
    static native byte[][] driverNext(long driver, long timeoutMs, long[] numbers);

    /** @param texts the reason of slotsMost, the failure of nodes, why Spark does not answer, how it has ended */
    static native void driverReportSpark(long driver, long slots, long slotsMost, byte[][] texts);

    static native void driverReportJob(long driver, long job, byte[] failure);

    static native void driverReportContextEnd(long driver, byte[] how);

    static native long driverAwaitNodes(long driver);

    static native long driverAskStatus(long driver);

    static native long driverAskResults(long driver);

    static native long driverAwaitTensorboard(long driver);

    static native long driverFinish(long driver, long graceMs, long timeoutMs);

    /** @param queues of the data, and of what it is validated with if there is such; the same for what follows */
    static native long driverFeed(
            long driver,
            byte[][] queues,
            long[] partitions,
            boolean[] determinate,
            boolean again,
            long timeoutMs,
            long epochs);

    static native void driverAbandon(long driver, long call);

    static native void driverStop(long driver, byte[] reason);

    /** What a trainer does with its options, both as JSON: see tfos/model.h. */
    public static native byte[] trainerPlan(byte[] options, ServedFiles files);
}

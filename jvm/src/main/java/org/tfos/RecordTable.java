package org.tfos;

import java.nio.charset.StandardCharsets;

/** What the options of a data source say of TFRecord files: see tfos/table.h, which also lists them. */
public final class RecordTable extends Handle {
    /** @param options a JSON object of texts */
    public RecordTable(String options) {
        super(make(options), Native::tableFree);
    }

    private static long make(String options) {
        Native.load();
        return Native.tableNew(utf8(options));
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** What the names of its files end with. */
    public String ending() {
        return Native.textOf(Native.tableEnding(address()));
    }

    /** Whether several readers may share a file. */
    public boolean splits(String path) {
        return Native.tableSplits(address(), utf8(path));
    }

    /** Throws if records of this table cannot have such columns. */
    public void check(String sparkSchema) {
        Native.tableCheck(address(), utf8(sparkSchema));
    }

    /** Whether a path is that of data, and not that of an index beside them. */
    public static boolean holds(String path) {
        Native.load();
        return Native.tableHolds(utf8(path));
    }

    /** The kind of its records, by the name that it has in the core. */
    public String record() {
        return Native.textOf(Native.tableRecord(address()));
    }

    /** Whether damaged records are skipped. */
    public boolean skips() {
        return Native.tableSkips(address());
    }

    /** How many records a schema is inferred from; 0: all. */
    public long sample() {
        return Native.tableSample(address());
    }

    /**
     * What parts of files have in them, for {@link #schema}.
     *
     * @param ranges size, start and end of each path
     */
    public String survey(String[] paths, long[] ranges, ServedFiles files) {
        return Native.textOf(Native.tableSurvey(address(), utf8(paths), ranges, files));
    }

    /** The Spark schema, in its JSON form, that follows from surveys of all files. */
    public String schema(String[] surveys) {
        return Native.textOf(Native.tableSchema(address(), utf8(surveys)));
    }

    private static byte[][] utf8(String[] texts) {
        byte[][] all = new byte[texts.length][];
        for (int i = 0; i < texts.length; i++) {
            all[i] = utf8(texts[i]);
        }
        return all;
    }

    long nativeAddress() {
        return address();
    }
}

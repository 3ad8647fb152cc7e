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

    long nativeAddress() {
        return address();
    }
}

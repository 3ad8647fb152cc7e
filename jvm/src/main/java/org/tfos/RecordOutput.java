package org.tfos;

/** A TFRecord file that is written. One that is closed before it was finished is thrown away. */
public final class RecordOutput extends Handle {
    /** @param files serves paths that have a scheme; may be null */
    public RecordOutput(RecordTable table, String path, ServedFiles files) {
        super(Native.outputOpen(table.nativeAddress(), RecordTable.utf8(path), files), Native::outputFree);
    }

    /** Writes a record as it is. */
    public void write(byte[] record, int offset, int count) {
        Native.outputRecord(address(), record, offset, count);
    }

    /** Takes the batch of rows of Spark's at this native address, and writes it. */
    public void writeRows(long rows) {
        Native.outputRows(address(), rows);
    }

    /** Makes the file whole. Nothing can be written any more. */
    public void finish() {
        Native.outputFinish(address());
    }
}

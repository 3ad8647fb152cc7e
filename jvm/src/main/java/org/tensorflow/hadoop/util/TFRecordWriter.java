package org.tensorflow.hadoop.util;

import java.io.DataOutput;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Puts records into their frames: length, its checksum, the record, its checksum; all little-endian. */
public class TFRecordWriter {
    private final DataOutput output;

    public TFRecordWriter(DataOutput output) {
        this.output = output;
    }

    public void write(byte[] record, int offset, int length) throws IOException {
        ByteBuffer header = ByteBuffer.allocate(Long.BYTES + Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        header.putLong(length);
        header.putInt(Crc32C.maskedCrc32c(header.array(), 0, Long.BYTES));
        ByteBuffer footer = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        footer.putInt(Crc32C.maskedCrc32c(record, offset, length));
        output.write(header.array());
        output.write(record, offset, length);
        output.write(footer.array());
    }

    public void write(byte[] record) throws IOException {
        write(record, 0, record.length);
    }
}

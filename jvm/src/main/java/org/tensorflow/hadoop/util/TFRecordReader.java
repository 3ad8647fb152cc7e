package org.tensorflow.hadoop.util;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Takes records out of their frames. What is damaged or cut short is an error that says where. */
public class TFRecordReader {
    private static final int HEADER_BYTES = Long.BYTES + Integer.BYTES;

    private final InputStream input;
    private final boolean checks;
    private long offset;

    /** @param crcCheck whether the checksum of records is looked at; that of their lengths always is */
    public TFRecordReader(InputStream input, boolean crcCheck) {
        this.input = input;
        this.checks = crcCheck;
    }

    /** The next record, or null at the end. */
    public byte[] read() throws IOException {
        byte[] header = input.readNBytes(HEADER_BYTES);
        if (header.length == 0) {
            return null;
        }
        expect(header.length, HEADER_BYTES);
        ByteBuffer numbers = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
        long length = numbers.getLong();
        if (numbers.getInt() != Crc32C.maskedCrc32c(header, 0, Long.BYTES)) {
            throw damaged("the checksum of the length does not match");
        }
        if (length < 0 || length > Integer.MAX_VALUE - HEADER_BYTES) {
            throw damaged("a record of " + length + " bytes is more than an array holds");
        }
        byte[] record = input.readNBytes((int) length);
        expect(record.length, length);
        byte[] footer = input.readNBytes(Integer.BYTES);
        expect(footer.length, Integer.BYTES);
        int crc = ByteBuffer.wrap(footer).order(ByteOrder.LITTLE_ENDIAN).getInt();
        if (checks && crc != Crc32C.maskedCrc32c(record)) {
            throw damaged("the checksum of the record does not match");
        }
        offset += HEADER_BYTES + length + Integer.BYTES;
        return record;
    }

    private void expect(long found, long expected) throws EOFException {
        if (found < expected) {
            throw new EOFException("offset " + offset + ": the record is cut short: expected " + expected
                    + " more bytes, found " + found);
        }
    }

    private IOException damaged(String why) {
        return new IOException("offset " + offset + ": " + why);
    }
}

package org.tensorflow.hadoop.util;

import java.util.zip.CRC32C;
import java.util.zip.Checksum;

/** CRC-32C, and its masked form that stands in TFRecord files. */
public class Crc32C implements Checksum {
    private static final int MASK_DELTA = 0xa282ead8;

    private final CRC32C crc = new CRC32C();

    public static int maskedCrc32c(byte[] data) {
        return maskedCrc32c(data, 0, data.length);
    }

    public static int maskedCrc32c(byte[] data, int offset, int length) {
        Crc32C crc = new Crc32C();
        crc.update(data, offset, length);
        return crc.getMaskedValue();
    }

    /** A checksum of data that holds checksums is better masked. */
    public static int mask(int crc) {
        return Integer.rotateRight(crc, 15) + MASK_DELTA;
    }

    public static int unmask(int masked) {
        return Integer.rotateLeft(masked - MASK_DELTA, 15);
    }

    public int getMaskedValue() {
        return mask(getIntValue());
    }

    public int getIntValue() {
        return (int) getValue();
    }

    @Override
    public void update(int value) {
        crc.update(value);
    }

    @Override
    public void update(byte[] data, int offset, int length) {
        crc.update(data, offset, length);
    }

    @Override
    public long getValue() {
        return crc.getValue();
    }

    @Override
    public void reset() {
        crc.reset();
    }
}

package org.tfos.spark;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Some rows of a column, or what is in their lists, laid out as tfos.h says at tfos_spark_vector. */
abstract class SparkVector implements AutoCloseable {
    /** Of a vector in the array that crosses to the native library: length, values, offsets, nulls. */
    static final int WORDS = 4;

    private final Memory nulls = new Memory();
    private boolean hasNulls;
    protected int length;

    static SparkVector of(char value, int lists, int precision, int scale) {
        if (lists > 0) {
            return new Lists(of(value, lists - 1, precision, scale));
        }
        if (value == 'L') {
            return new Bytes(precision, scale);
        }
        return precision > 0 ? new Decimals(precision, scale) : new Plain(Numbers.valueOf(String.valueOf(value)));
    }

    /** Whether rows can be put from such a vector. */
    boolean takes(ColumnVector from) {
        return true;
    }

    /** Adds rows of one of Spark's vectors. */
    void put(ColumnVector from, int first, int count) {
        putNulls(from, first, count);
        putValues(from, first, count);
        length += count;
    }

    private void putNulls(ColumnVector from, int first, int count) {
        boolean more = from.hasNull();
        if (!more && !hasNulls) {
            return;
        }
        long address = nulls.reserve((long) length + count);
        if (!hasNulls) {
            Platform.setMemory(address, (byte) 0, length);
            hasNulls = true;
        }
        for (int i = 0; i < count; i++) {
            Platform.putBoolean(null, address + length + i, more && from.isNullAt(first + i));
        }
    }

    /** Adds the values of rows behind the {@code length} ones that are there. */
    protected abstract void putValues(ColumnVector from, int first, int count);

    void clear() {
        length = 0;
        hasNulls = false;
    }

    /** Bytes of what is there, more or less. */
    abstract long bytes();

    /** Says where everything is; returns where the words of the next vector begin. */
    abstract int tell(long[] words, int at);

    protected final int tell(long[] words, int at, long values, long offsets) {
        words[at] = length;
        words[at + 1] = values;
        words[at + 2] = offsets;
        words[at + 3] = hasNulls ? nulls.address() : 0;
        return at + WORDS;
    }

    /** How many vectors there are, from this one down. */
    int depth() {
        return 1;
    }

    @Override
    public void close() {
        nulls.close();
    }

    /** Values of one width, one behind the other. */
    private abstract static class Values extends SparkVector {
        private final int width;
        private final Memory values = new Memory();

        Values(int width) {
            this.width = width;
        }

        /** Where the next `count` values go. */
        protected final long reserve(int count) {
            long begin = (long) length * width;
            return values.reserve(begin + (long) count * width) + begin;
        }

        @Override
        final long bytes() {
            return (long) length * width;
        }

        @Override
        final int tell(long[] words, int at) {
            return tell(words, at, values.address(), 0);
        }

        @Override
        public final void close() {
            values.close();
            super.close();
        }
    }

    private static final class Plain extends Values {
        private final Numbers numbers;

        Plain(Numbers numbers) {
            super(numbers.width);
            this.numbers = numbers;
        }

        @Override
        protected void putValues(ColumnVector from, int first, int count) {
            numbers.copy(from, first, count, reserve(count));
        }
    }

    /** Decimals of few digits, as unscaled numbers. */
    private static final class Decimals extends Values {
        private final int precision;
        private final int scale;

        Decimals(int precision, int scale) {
            super(Long.BYTES);
            this.precision = precision;
            this.scale = scale;
        }

        @Override
        protected void putValues(ColumnVector from, int first, int count) {
            long address = reserve(count);
            for (int i = 0; i < count; i++) {
                if (!from.isNullAt(first + i)) {
                    long unscaled = from.getDecimal(first + i, precision, scale).toUnscaledLong();
                    Platform.putLong(null, address + (long) i * Long.BYTES, unscaled);
                }
            }
        }
    }

    /** What has offsets; there is one more of them than rows. */
    private abstract static class Parts extends SparkVector {
        protected final Memory offsets = new Memory();
        private int end;

        Parts() {
            Platform.putInt(null, offsets.address(), 0);
        }

        protected final int end() {
            return end;
        }

        protected final void reserveOffsets(int count) {
            offsets.reserve(((long) length + count + 1) * Integer.BYTES);
        }

        /** Row {@code index} behind those that are there ends so many bytes or values after the one before it. */
        protected final void endPart(int index, int size) {
            end = Math.addExact(end, size);
            Platform.putInt(null, offsets.address() + ((long) length + index + 1) * Integer.BYTES, end);
        }

        @Override
        void clear() {
            super.clear();
            end = 0;
        }

        @Override
        public void close() {
            offsets.close();
            super.close();
        }
    }

    /** Strings, binaries, and decimals of many digits. */
    private static final class Bytes extends Parts {
        private final int precision;
        private final int scale;
        private final Memory values = new Memory();

        Bytes(int precision, int scale) {
            this.precision = precision;
            this.scale = scale;
        }

        @Override
        protected void putValues(ColumnVector from, int first, int count) {
            boolean binary = from.dataType() instanceof BinaryType;
            reserveOffsets(count);
            for (int i = 0; i < count; i++) {
                if (from.isNullAt(first + i)) {
                    endPart(i, 0);
                } else if (precision > 0) {
                    putBytes(i, bytesOf(from.getDecimal(first + i, precision, scale)));
                } else if (binary) {
                    putBytes(i, from.getBinary(first + i));
                } else {
                    putText(i, from.getUTF8String(first + i));
                }
            }
        }

        private static byte[] bytesOf(Decimal decimal) {
            return decimal.toJavaBigDecimal().unscaledValue().toByteArray();
        }

        private void putBytes(int index, byte[] bytes) {
            long address = values.reserve((long) end() + bytes.length) + end();
            Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET, null, address, bytes.length);
            endPart(index, bytes.length);
        }

        private void putText(int index, UTF8String text) {
            int bytes = text.numBytes();
            text.writeToMemory(null, values.reserve((long) end() + bytes) + end());
            endPart(index, bytes);
        }

        @Override
        long bytes() {
            return end() + (long) length * Integer.BYTES;
        }

        @Override
        int tell(long[] words, int at) {
            return tell(words, at, values.address(), offsets.address());
        }

        @Override
        public void close() {
            values.close();
            super.close();
        }
    }

    private static final class Lists extends Parts {
        private final SparkVector child;

        Lists(SparkVector child) {
            this.child = child;
        }

        @Override
        boolean takes(ColumnVector from) {
            return from instanceof WritableColumnVector && child.takes(((WritableColumnVector) from).arrayData());
        }

        /** Lists whose values follow one another are copied at once. */
        @Override
        protected void putValues(ColumnVector from, int first, int count) {
            WritableColumnVector lists = (WritableColumnVector) from;
            int begin = 0;
            int stop = 0;
            reserveOffsets(count);
            for (int row = first; row < first + count; row++) {
                if (lists.isNullAt(row)) {
                    endPart(row - first, 0);
                    continue;
                }
                int at = lists.getArrayOffset(row);
                int size = lists.getArrayLength(row);
                if (at != stop) {
                    putRun(lists, begin, stop);
                    begin = at;
                }
                stop = at + size;
                endPart(row - first, size);
            }
            putRun(lists, begin, stop);
        }

        private void putRun(WritableColumnVector lists, int begin, int stop) {
            if (stop > begin) {
                child.put(lists.arrayData(), begin, stop - begin);
            }
        }

        @Override
        void clear() {
            super.clear();
            child.clear();
        }

        @Override
        long bytes() {
            return child.bytes() + (long) length * Integer.BYTES;
        }

        @Override
        int tell(long[] words, int at) {
            return child.tell(words, tell(words, at, 0, offsets.address()));
        }

        @Override
        int depth() {
            return 1 + child.depth();
        }

        @Override
        public void close() {
            child.close();
            super.close();
        }
    }
}

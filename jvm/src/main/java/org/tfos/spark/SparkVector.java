package org.tfos.spark;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Some rows of a column, or what is in their lists, laid out as tfos/spark.h says at tfos_spark_vector. */
abstract class SparkVector implements AutoCloseable {
    /** Of a vector in the array that crosses to the native library: length, values, offsets, nulls. */
    static final int WORDS = 4;

    /** Of a column, that are copied at a time; a row that has more comes alone. */
    static final long PART_BYTES = 256 << 10;

    private long most = Long.MAX_VALUE; // bytes of a row
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

    /** As the vector of a column: a row of more bytes is not put, nor more rows than make a part. */
    final SparkVector bounded(long rowBytes) {
        most = rowBytes;
        return this;
    }

    /** Whether a row of a column is too large, or one too many in its part. */
    protected final boolean exceeds(long before, long bytes) {
        return bytes > most || (before > 0 && most != Long.MAX_VALUE && before + bytes > PART_BYTES);
    }

    /** Adds rows of one of Spark's vectors. Returns how many; 0 when the first of them is too large. */
    int put(ColumnVector from, int first, int count) {
        putNulls(from, first, count);
        int done = putValues(from, first, count);
        length += done;
        return done;
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

    /** Adds the values of rows behind the {@code length} ones that are there. Returns of how many. */
    protected abstract int putValues(ColumnVector from, int first, int count);

    /** Bytes that the values of rows have. */
    abstract long bytesOf(ColumnVector from, int first, int count);

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
        final long bytesOf(ColumnVector from, int first, int count) {
            return (long) count * width;
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
        protected int putValues(ColumnVector from, int first, int count) {
            numbers.copy(from, first, count, reserve(count));
            return count;
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
        protected int putValues(ColumnVector from, int first, int count) {
            long address = reserve(count);
            for (int i = 0; i < count; i++) {
                if (!from.isNullAt(first + i)) {
                    long unscaled = from.getDecimal(first + i, precision, scale).toUnscaledLong();
                    Platform.putLong(null, address + (long) i * Long.BYTES, unscaled);
                }
            }
            return count;
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
        protected int putValues(ColumnVector from, int first, int count) {
            boolean binary = from.dataType() instanceof BinaryType;
            reserveOffsets(count);
            for (int i = 0; i < count; i++) {
                if (from.isNullAt(first + i)) {
                    endPart(i, 0);
                } else if (!(binary ? putBinary(from, first + i, i) : putOther(from, first + i, i))) {
                    return i;
                }
            }
            return count;
        }

        /** Spark makes a copy of a binary value; it is not asked for one that is too large. */
        private boolean putBinary(ColumnVector from, int row, int index) {
            if (exceeds(end(), sizeOf(from, row))) {
                return false;
            }
            putBytes(index, from.getBinary(row));
            return true;
        }

        private boolean putOther(ColumnVector from, int row, int index) {
            if (precision > 0) {
                putBytes(index, bytesOf(from.getDecimal(row, precision, scale)));
                return true;
            }
            UTF8String text = from.getUTF8String(row);
            if (exceeds(end(), text.numBytes())) {
                return false;
            }
            putText(index, text);
            return true;
        }

        /** Bytes of a value that is not null. */
        private long sizeOf(ColumnVector from, int row) {
            if (precision > 0) {
                return 2 * Long.BYTES;
            }
            if (from instanceof WritableColumnVector && !((WritableColumnVector) from).hasDictionary()) {
                return ((WritableColumnVector) from).getArrayLength(row);
            }
            boolean binary = from.dataType() instanceof BinaryType;
            return binary ? from.getBinary(row).length : from.getUTF8String(row).numBytes();
        }

        @Override
        long bytesOf(ColumnVector from, int first, int count) {
            long bytes = 0;
            for (int row = first; row < first + count; row++) {
                bytes += from.isNullAt(row) ? 0 : sizeOf(from, row);
            }
            return bytes;
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
            ListVector lists = ListVector.of(from);
            return lists != null && child.takes(lists.values());
        }

        /** Lists whose values follow one another are copied at once. */
        @Override
        protected int putValues(ColumnVector from, int first, int count) {
            ListVector lists = ListVector.of(from);
            int end = measure(lists, first, count);
            int begin = 0;
            int stop = 0;
            for (int row = first; row < end; row++) {
                if (!lists.isNullAt(row)) {
                    int at = lists.begin(row);
                    if (at != stop) {
                        putRun(lists, begin, stop);
                        begin = at;
                    }
                    stop = at + lists.length(row);
                }
            }
            putRun(lists, begin, stop);
            return end - first;
        }

        /** Notes where lists will end, and returns the first row that is not to be put. */
        private int measure(ListVector lists, int first, int count) {
            long bytes = 0;
            reserveOffsets(count);
            for (int row = first; row < first + count; row++) {
                int size = lists.isNullAt(row) ? 0 : lists.length(row);
                long more = size == 0 ? 0 : child.bytesOf(lists.values(), lists.begin(row), size);
                if (exceeds(bytes, more)) {
                    return row;
                }
                bytes += more;
                endPart(row - first, size);
            }
            return first + count;
        }

        @Override
        long bytesOf(ColumnVector from, int first, int count) {
            ListVector lists = ListVector.of(from);
            long bytes = 0;
            for (int row = first; row < first + count; row++) {
                if (!lists.isNullAt(row)) {
                    bytes += child.bytesOf(lists.values(), lists.begin(row), lists.length(row));
                }
            }
            return bytes;
        }

        private void putRun(ListVector lists, int begin, int stop) {
            if (stop > begin) {
                child.put(lists.values(), begin, stop - begin);
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

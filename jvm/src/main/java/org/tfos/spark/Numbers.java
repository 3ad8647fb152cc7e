package org.tfos.spark;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/** How the numbers of a type leave a column vector of Spark's; the names are JNI's letters. */
enum Numbers {
    Z(1, Platform.BOOLEAN_ARRAY_OFFSET, ColumnVector::getBooleans) {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putBoolean(null, to, from.getBoolean(row));
        }
    },
    B(1, Platform.BYTE_ARRAY_OFFSET, ColumnVector::getBytes) {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putByte(null, to, from.getByte(row));
        }
    },
    S(2, Platform.SHORT_ARRAY_OFFSET, ColumnVector::getShorts) {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putShort(null, to, from.getShort(row));
        }
    },
    I(4, Platform.INT_ARRAY_OFFSET, ColumnVector::getInts) {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putInt(null, to, from.getInt(row));
        }
    },
    J(8, Platform.LONG_ARRAY_OFFSET, ColumnVector::getLongs) {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putLong(null, to, from.getLong(row));
        }
    },
    F(4, Platform.FLOAT_ARRAY_OFFSET, ColumnVector::getFloats) {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putFloat(null, to, from.getFloat(row));
        }
    },
    D(8, Platform.DOUBLE_ARRAY_OFFSET, ColumnVector::getDoubles) {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putDouble(null, to, from.getDouble(row));
        }
    };

    private interface Whole {
        Object array(ColumnVector from, int first, int count);
    }

    final int width;
    private final int arrayOffset;
    private final Whole whole;

    Numbers(int width, int arrayOffset, Whole whole) {
        this.width = width;
        this.arrayOffset = arrayOffset;
        this.whole = whole;
    }

    /** Copies one number, which is not null. */
    abstract void put(ColumnVector from, int row, long to);

    /** Copies numbers; what is copied for a null is undefined. */
    void copy(ColumnVector from, int first, int count, long to) {
        if (isPlain(from)) {
            Platform.copyMemory(whole.array(from, first, count), arrayOffset, null, to, (long) count * width);
            return;
        }
        for (int i = 0; i < count; i++) {
            if (!from.isNullAt(first + i)) {
                put(from, first + i, to + (long) i * width);
            }
        }
    }

    /** Whether there is an array, or can be one, that has a number for every row. */
    private static boolean isPlain(ColumnVector from) {
        if (from instanceof WritableColumnVector) {
            WritableColumnVector writable = (WritableColumnVector) from;
            return !writable.hasDictionary() && !writable.isAllNull();
        }
        return !from.hasNull();
    }
}

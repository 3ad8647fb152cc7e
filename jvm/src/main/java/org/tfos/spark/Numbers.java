package org.tfos.spark;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import org.apache.spark.sql.execution.vectorized.OffHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/** How the numbers of a type leave a column vector of Spark's; the names are JNI's letters. */
enum Numbers {
    Z(1, Platform.BOOLEAN_ARRAY_OFFSET, ColumnVector::getBooleans, "byteData") {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putBoolean(null, to, from.getBoolean(row));
        }
    },
    B(1, Platform.BYTE_ARRAY_OFFSET, ColumnVector::getBytes, "byteData") {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putByte(null, to, from.getByte(row));
        }
    },
    S(2, Platform.SHORT_ARRAY_OFFSET, ColumnVector::getShorts, "shortData") {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putShort(null, to, from.getShort(row));
        }
    },
    I(4, Platform.INT_ARRAY_OFFSET, ColumnVector::getInts, "intData") {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putInt(null, to, from.getInt(row));
        }
    },
    J(8, Platform.LONG_ARRAY_OFFSET, ColumnVector::getLongs, "longData") {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putLong(null, to, from.getLong(row));
        }
    },
    F(4, Platform.FLOAT_ARRAY_OFFSET, ColumnVector::getFloats, "floatData") {
        @Override
        void put(ColumnVector from, int row, long to) {
            Platform.putFloat(null, to, from.getFloat(row));
        }
    },
    D(8, Platform.DOUBLE_ARRAY_OFFSET, ColumnVector::getDoubles, "doubleData") {
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
    private final Field field;

    Numbers(int width, int arrayOffset, Whole whole, String field) {
        this.width = width;
        this.arrayOffset = arrayOffset;
        this.whole = whole;
        this.field = find(field);
    }

    /**
     * Where Spark's own vectors keep such numbers. What they give when they are asked is a copy, and so many of them
     * keep the collector busy. Null: this Spark has another name for it, and is asked.
     */
    private static Field find(String name) {
        try {
            Field field = OnHeapColumnVector.class.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }

    /** Copies one number, which is not null. */
    abstract void put(ColumnVector from, int row, long to);

    /** Copies numbers; what is copied for a null is undefined. */
    void copy(ColumnVector from, int first, int count, long to) {
        if (isPlain(from)) {
            copyPlain(from, first, count, to);
            return;
        }
        for (int i = 0; i < count; i++) {
            if (!from.isNullAt(first + i)) {
                put(from, first + i, to + (long) i * width);
            }
        }
    }

    private void copyPlain(ColumnVector from, int first, int count, long to) {
        long begin = (long) first * width;
        long bytes = (long) count * width;
        Object array = from instanceof OnHeapColumnVector ? arrayOf(from) : null;
        if (array != null && Array.getLength(array) - first >= count) {
            Platform.copyMemory(array, arrayOffset + begin, null, to, bytes);
        } else if (from instanceof OffHeapColumnVector) {
            Platform.copyMemory(null, ((OffHeapColumnVector) from).valuesNativeAddress() + begin, null, to, bytes);
        } else if (from instanceof RecordVector) {
            Platform.copyMemory(null, ((RecordVector) from).data() + begin, null, to, bytes);
        } else {
            Platform.copyMemory(whole.array(from, first, count), arrayOffset, null, to, bytes);
        }
    }

    private Object arrayOf(ColumnVector from) {
        try {
            return field == null ? null : field.get(from);
        } catch (IllegalAccessException e) {
            return null;
        }
    }

    /** Whether there is an array, or can be one, that has a number for every row. */
    private static boolean isPlain(ColumnVector from) {
        if (from instanceof WritableColumnVector) {
            WritableColumnVector writable = (WritableColumnVector) from;
            return !writable.hasDictionary() && !writable.isAllNull();
        }
        if (from instanceof RecordVector) {
            return !(from.dataType() instanceof BooleanType); // of which a record's batch has bits
        }
        return !from.hasNull();
    }
}

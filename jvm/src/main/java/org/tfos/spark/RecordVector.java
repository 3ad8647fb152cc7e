package org.tfos.spark;

import java.math.BigDecimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import org.tfos.RecordInput;
import org.tfos.Status;
import org.tfos.TfosException;

/**
 * A column of records, or what is in its lists, in the memory of the native library: nothing is copied before somebody
 * asks for a value. It is pointed at one batch after the other.
 */
final class RecordVector extends ColumnVector {
    private final RecordVector child; // of a list
    private int nulls;
    private long validity; // a bit for each row that is not null; looked at where some are
    private long offsets; // of lists, strings and binaries
    private long data;

    RecordVector(DataType type) {
        super(type);
        child = type instanceof ArrayType ? new RecordVector(((ArrayType) type).elementType()) : null;
    }

    /** How many levels columns of these types have. */
    static int levels(StructType schema) {
        int levels = 0;
        for (StructField field : schema.fields()) {
            levels += levels(field.dataType());
        }
        return levels;
    }

    private static int levels(DataType type) {
        return type instanceof ArrayType ? 1 + levels(((ArrayType) type).elementType()) : 1;
    }

    /** Points it at a batch; returns where the words of the next column begin. */
    int point(long[] words, int at) {
        nulls = (int) words[at];
        validity = words[at + 1];
        offsets = words[at + 2];
        data = words[at + 3];
        int next = at + RecordInput.WORDS;
        return child == null ? next : child.point(words, next);
    }

    /** Where values are: numbers one behind the other, or the bytes of all values. */
    long data() {
        return data;
    }

    /** What is in the lists. */
    RecordVector values() {
        return child;
    }

    /** The memory belongs to the batch. */
    @Override
    public void close() {}

    @Override
    public boolean hasNull() {
        return nulls > 0;
    }

    @Override
    public int numNulls() {
        return nulls;
    }

    @Override
    public boolean isNullAt(int row) {
        return nulls > 0 && !bit(validity, row);
    }

    private static boolean bit(long bits, int row) {
        return (Platform.getByte(null, bits + (row >>> 3)) >>> (row & 7) & 1) != 0;
    }

    @Override
    public boolean getBoolean(int row) {
        return bit(data, row);
    }

    @Override
    public byte getByte(int row) {
        throw unexpected();
    }

    @Override
    public short getShort(int row) {
        throw unexpected();
    }

    @Override
    public int getInt(int row) {
        return Platform.getInt(null, data + ((long) row << 2));
    }

    @Override
    public long getLong(int row) {
        return Platform.getLong(null, data + ((long) row << 3));
    }

    @Override
    public float getFloat(int row) {
        return Platform.getFloat(null, data + ((long) row << 2));
    }

    @Override
    public double getDouble(int row) {
        return Platform.getDouble(null, data + ((long) row << 3));
    }

    @Override
    public int[] getInts(int row, int count) {
        int[] values = new int[count];
        Platform.copyMemory(null, data + ((long) row << 2), values, Platform.INT_ARRAY_OFFSET, (long) count << 2);
        return values;
    }

    @Override
    public long[] getLongs(int row, int count) {
        long[] values = new long[count];
        Platform.copyMemory(null, data + ((long) row << 3), values, Platform.LONG_ARRAY_OFFSET, (long) count << 3);
        return values;
    }

    @Override
    public float[] getFloats(int row, int count) {
        float[] values = new float[count];
        Platform.copyMemory(null, data + ((long) row << 2), values, Platform.FLOAT_ARRAY_OFFSET, (long) count << 2);
        return values;
    }

    @Override
    public double[] getDoubles(int row, int count) {
        double[] values = new double[count];
        Platform.copyMemory(null, data + ((long) row << 3), values, Platform.DOUBLE_ARRAY_OFFSET, (long) count << 3);
        return values;
    }

    /** Where the values of a row's list begin among those of all, or its bytes. */
    int begin(int row) {
        return Platform.getInt(null, offsets + ((long) row << 2));
    }

    @Override
    public ColumnarArray getArray(int row) {
        if (isNullAt(row)) {
            return null;
        }
        int begin = begin(row);
        return new ColumnarArray(child, begin, begin(row + 1) - begin);
    }

    @Override
    public ColumnarMap getMap(int row) {
        throw unexpected();
    }

    /** Records have no decimals: they are the nearest to what the float in the record is written as. */
    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
        if (isNullAt(row)) {
            return null;
        }
        float value = getFloat(row);
        boolean finite = !Float.isNaN(value) && !Float.isInfinite(value);
        Decimal decimal = finite ? Decimal.apply(new BigDecimal(Float.toString(value))) : null;
        if (decimal == null || !decimal.changePrecision(precision, scale)) {
            throw new TfosException(
                    Status.RANGE,
                    "a record has " + value + " for a column of type " + type.sql()
                            + ", which has no such value: read the column as float or double");
        }
        return decimal;
    }

    @Override
    public UTF8String getUTF8String(int row) {
        if (isNullAt(row)) {
            return null;
        }
        int begin = begin(row);
        return UTF8String.fromAddress(null, data + begin, begin(row + 1) - begin);
    }

    @Override
    public byte[] getBinary(int row) {
        if (isNullAt(row)) {
            return null;
        }
        int begin = begin(row);
        byte[] bytes = new byte[begin(row + 1) - begin];
        Platform.copyMemory(null, data + begin, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
        return bytes;
    }

    @Override
    public ColumnVector getChild(int ordinal) {
        return child;
    }

    private UnsupportedOperationException unexpected() {
        return new UnsupportedOperationException("records have no values of type " + type.sql());
    }
}

package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.tfos.TfosException;

/** How columns cross to the native library; Spark's own vectors are tested with Spark. */
class SparkColumnsTest {
    /** A vector as a source of data may bring it: longs or strings, and it does not like to be asked for a null. */
    private static final class Foreign extends ColumnVector {
        private final Long[] values;

        Foreign(DataType type, Long... values) {
            super(type);
            this.values = values;
        }

        @Override
        public void close() {}

        @Override
        public boolean hasNull() {
            return numNulls() > 0;
        }

        @Override
        public int numNulls() {
            int count = 0;
            for (Long value : values) {
                count += value == null ? 1 : 0;
            }
            return count;
        }

        @Override
        public boolean isNullAt(int row) {
            return values[row] == null;
        }

        @Override
        public long getLong(int row) {
            return values[row];
        }

        @Override
        public UTF8String getUTF8String(int row) {
            return UTF8String.fromString("ä" + values[row]);
        }

        @Override
        public byte[] getBinary(int row) {
            return ("b" + values[row]).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public boolean getBoolean(int row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public byte getByte(int row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public short getShort(int row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public int getInt(int row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public float getFloat(int row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public double getDouble(int row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public ColumnarArray getArray(int row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public ColumnarMap getMap(int row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Decimal getDecimal(int row, int precision, int scale) {
            throw new UnsupportedOperationException();
        }

        @Override
        public ColumnVector getChild(int ordinal) {
            throw new UnsupportedOperationException();
        }
    }

    private static SparkRows rows(String type, String options) {
        return new SparkRows("{\"schema\":{\"type\":\"struct\",\"fields\":[{\"name\":\"x\",\"type\":" + type
                + ",\"nullable\":true,\"metadata\":{}}]},\"columns\":{\"x\":" + options + "}}");
    }

    private static ColumnarBatch batch(ColumnVector vector, int rows) {
        return new ColumnarBatch(new ColumnVector[] {vector}, rows);
    }

    @Test
    void partsOfABatchCrossOneAfterTheOther() {
        int total = 5000;
        Long[] numbers = new Long[total];
        for (int i = 0; i < total; i++) {
            numbers[i] = (long) i;
        }
        numbers[total - 1] = 1L << 40;
        ColumnarBatch batch = batch(new Foreign(DataTypes.LongType, numbers), total);
        try (SparkRows rows = rows("\"long\"", "{\"cast\":\"int32\"}");
                SparkColumns columns = new SparkColumns(rows)) {
            assertTrue(rows.takeColumns());
            assertTrue(columns.take(batch));
            int at = 0;
            for (int parts = 0; at < 4000; parts++) {
                int put = columns.put(batch, at);
                assertTrue(put > 0 && (parts == 0 || put > 100), "a part has " + put + " rows");
                assertFalse(columns.append());
                at += put;
                assertEquals(at, rows.count());
            }
            columns.put(batch, total - 1);
            TfosException e = assertThrows(TfosException.class, columns::append);
            assertTrue(e.reason().startsWith("column 'x', row " + at + " of the partition: the value " + (1L << 40)));
        }
    }

    @Test
    void nullsAreNotAskedFor() {
        Long[] numbers = {1L, null, 3L};
        for (DataType type : new DataType[] {DataTypes.LongType, DataTypes.StringType, DataTypes.BinaryType}) {
            String fallback = type == DataTypes.LongType ? "7" : "\"none\"";
            try (SparkRows rows = rows("\"" + type.typeName() + "\"", "{\"default\":" + fallback + "}");
                    SparkColumns columns = new SparkColumns(rows)) {
                assertEquals(3, columns.put(batch(new Foreign(type, numbers), 3), 0));
                assertFalse(columns.append());
                assertEquals(3, rows.count());
            }
            try (SparkRows rows = rows("\"" + type.typeName() + "\"", "{}");
                    SparkColumns columns = new SparkColumns(rows)) {
                columns.put(batch(new Foreign(type, numbers), 3), 0);
                TfosException e = assertThrows(TfosException.class, columns::append);
                assertTrue(e.reason().startsWith("column 'x', row 1 of the partition: the value is null"), e.reason());
            }
        }
    }

    @Test
    void listsOfOtherVectorsAreLeftToRows() {
        String type = "{\"type\":\"array\",\"elementType\":\"long\",\"containsNull\":true}";
        try (SparkRows rows = rows(type, "{}");
                SparkColumns columns = new SparkColumns(rows)) {
            assertFalse(columns.take(batch(new Foreign(DataTypes.LongType, 1L), 1)));
        }
    }

    @Test
    void vectorsOfSparkMlAreLeftToRows() {
        String type = "{\"type\":\"udt\",\"class\":\"org.apache.spark.ml.linalg.VectorUDT\",\"sqlType\":{}}";
        try (SparkRows rows = rows(type, "{}")) {
            assertFalse(rows.takeColumns());
        }
    }

    @Test
    void wrongWordsAreRefused() {
        try (SparkRows rows = rows("\"long\"", "{}")) {
            assertThrows(TfosException.class, () -> rows.appendColumns(new long[3], 0, 1));
        }
    }
}

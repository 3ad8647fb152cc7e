package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import org.junit.jupiter.api.Test;
import org.tfos.Status;
import org.tfos.TfosException;

/** How rows cross to the native library; what becomes of their values is tested there. */
class SparkRowsTest {
    private static final int ROW_BYTES = 16; // null bits and one slot
    private static final long TOO_MUCH = 1L << 40; // for an int32

    private static String description(String options) {
        return "{\"schema\":{\"type\":\"struct\",\"fields\":[{\"name\":\"größe\",\"type\":\"long\",\"nullable\":true,"
                + "\"metadata\":{}}]},\"columns\":{\"größe\":" + options + "}}";
    }

    private static SparkRows narrow() {
        return new SparkRows(description("{\"cast\":\"int32\"}"));
    }

    private static UnsafeRow row(Object base, long offset, long value) {
        UnsafeRow row = new UnsafeRow(1);
        row.pointTo(base, offset, ROW_BYTES);
        row.setLong(0, value);
        return row;
    }

    private static UnsafeRow row(long value) {
        return row(new byte[ROW_BYTES], Platform.BYTE_ARRAY_OFFSET, value);
    }

    private static void putAll(SparkRows rows, UnsafeRow... all) {
        for (UnsafeRow row : all) {
            assertTrue(rows.fits(row));
            rows.put(row);
        }
    }

    @Test
    void rowsCrossFromWhereverTheyAre() {
        long address = Platform.allocateMemory(ROW_BYTES);
        try (SparkRows rows = narrow()) {
            putAll(
                    rows,
                    row(new byte[ROW_BYTES + 8], Platform.BYTE_ARRAY_OFFSET + 8, 1),
                    row(new long[2], Platform.LONG_ARRAY_OFFSET, 2),
                    row(null, address, 3));
            assertFalse(rows.append());
            assertEquals(3, rows.count());
            putAll(rows, row(null, address, TOO_MUCH));
            TfosException e = assertThrows(TfosException.class, rows::append);
            assertEquals(Status.RANGE, e.status());
            String start = "column 'größe', row 3 of the partition: the value " + TOO_MUCH;
            assertTrue(e.reason().startsWith(start), e.reason());
        } finally {
            Platform.freeMemory(address);
        }
    }

    @Test
    void valuesAreThoseOfEachKindOfMemory() {
        long address = Platform.allocateMemory(ROW_BYTES);
        try {
            UnsafeRow[] all = {
                row(new byte[ROW_BYTES], Platform.BYTE_ARRAY_OFFSET, TOO_MUCH + 1),
                row(new long[2], Platform.LONG_ARRAY_OFFSET, TOO_MUCH + 2),
                row(null, address, TOO_MUCH + 3)
            };
            for (int i = 0; i < all.length; i++) {
                try (SparkRows rows = narrow()) {
                    putAll(rows, all[i]);
                    TfosException e = assertThrows(TfosException.class, rows::append);
                    assertTrue(e.reason().contains(" the value " + (TOO_MUCH + 1 + i) + " "), e.reason());
                }
            }
        } finally {
            Platform.freeMemory(address);
        }
    }

    @Test
    void blocksFillAndEmpty() {
        try (SparkRows rows = narrow()) {
            UnsafeRow row = row(5);
            long total = 0;
            for (int round = 0; round < 2; round++) {
                while (rows.fits(row)) {
                    rows.put(row);
                    total++;
                }
                assertFalse(rows.append());
                assertEquals(total, rows.count());
                assertTrue(rows.fits(row));
            }
            assertTrue(total > 1000);
        }
    }

    @Test
    void aRowMayBeLargerThanABlock() {
        int bytes = 1 << 20;
        UnsafeRow large = new UnsafeRow(1);
        large.pointTo(new byte[bytes], Platform.BYTE_ARRAY_OFFSET, bytes);
        try (SparkRows rows = narrow()) {
            putAll(rows, row(1));
            assertFalse(rows.fits(large));
            assertFalse(rows.append());
            putAll(rows, large);
            assertFalse(rows.append());
            assertEquals(2, rows.count());
        }
    }

    @Test
    void nullIsAnErrorWithoutADefault() {
        UnsafeRow row = row(1);
        row.setNullAt(0);
        try (SparkRows rows = new SparkRows(description("{\"default\":7}"))) {
            putAll(rows, row);
            assertFalse(rows.append());
            assertEquals(1, rows.count());
        }
        try (SparkRows rows = new SparkRows(description("{}"))) {
            rows.skip(41);
            putAll(rows, row);
            TfosException e = assertThrows(TfosException.class, rows::append);
            assertEquals(Status.MISMATCH, e.status());
            assertTrue(e.reason().contains("row 41 "), e.reason());
        }
    }

    @Test
    void schemaIsToldAndWrongDescriptionsAreRefused() {
        try (SparkRows rows = narrow()) {
            assertTrue(rows.schema().contains("\"name\": \"größe\", \"type\": \"int32\""), rows.schema());
        }
        TfosException e =
                assertThrows(TfosException.class, () -> new SparkRows(description("{\"cast\":\"string\"}")));
        assertEquals(Status.UNSUPPORTED, e.status());
        assertTrue(e.getMessage().startsWith("UNSUPPORTED: column 'größe'"), e.getMessage());
    }

    @Test
    void closedRowsAreRefused() {
        SparkRows rows = narrow();
        rows.close();
        rows.close();
        assertThrows(IllegalStateException.class, rows::count);
    }
}

package org.tfos.spark;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;

/** A vector of lists that shows where they are: Spark's own, or one of records. */
interface ListVector {
    boolean isNullAt(int row);

    /** Where the list of a row begins among the values of all. */
    int begin(int row);

    int length(int row);

    /** What is in the lists. */
    ColumnVector values();

    /** Null: it shows nothing. */
    static ListVector of(ColumnVector from) {
        if (from instanceof RecordVector) {
            return ofRecords((RecordVector) from);
        }
        return from instanceof WritableColumnVector ? ofSpark((WritableColumnVector) from) : null;
    }

    private static ListVector ofRecords(RecordVector from) {
        return new ListVector() {
            @Override
            public boolean isNullAt(int row) {
                return from.isNullAt(row);
            }

            @Override
            public int begin(int row) {
                return from.begin(row);
            }

            @Override
            public int length(int row) {
                return from.begin(row + 1) - from.begin(row);
            }

            @Override
            public ColumnVector values() {
                return from.values();
            }
        };
    }

    private static ListVector ofSpark(WritableColumnVector from) {
        return new ListVector() {
            @Override
            public boolean isNullAt(int row) {
                return from.isNullAt(row);
            }

            @Override
            public int begin(int row) {
                return from.getArrayOffset(row);
            }

            @Override
            public int length(int row) {
                return from.getArrayLength(row);
            }

            @Override
            public ColumnVector values() {
                return from.arrayData();
            }
        };
    }
}

package org.tfos.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.Queue;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.spark.api.java.function.PairFlatMapFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.tensorflow.hadoop.util.TFRecordReader;
import scala.Tuple2;

/** Makes Examples of rows, a block of them at a time. */
final class RowsToRecords implements PairFlatMapFunction<Iterator<InternalRow>, BytesWritable, NullWritable> {
    private static final long serialVersionUID = 1L;
    private static final int BYTES = 1 << 20; // of a block, at least

    private final StructType schema;

    RowsToRecords(StructType schema) {
        TFRecordFormat.check(schema);
        this.schema = schema;
    }

    @Override
    public Iterator<Tuple2<BytesWritable, NullWritable>> call(Iterator<InternalRow> rows) {
        return new Records(rows);
    }

    private final class Records implements Iterator<Tuple2<BytesWritable, NullWritable>> {
        private final Iterator<InternalRow> rows;
        private final Queue<byte[]> records = new ArrayDeque<>();

        Records(Iterator<InternalRow> rows) {
            this.rows = rows;
        }

        @Override
        public boolean hasNext() {
            return !records.isEmpty() || rows.hasNext();
        }

        @Override
        public Tuple2<BytesWritable, NullWritable> next() {
            if (records.isEmpty()) {
                encode();
            }
            return new Tuple2<>(new BytesWritable(records.remove()), NullWritable.get());
        }

        private void encode() {
            MemoryFiles file = new MemoryFiles();
            try (RecordFile writer = new RecordFile("{}", "example", schema, MemoryFiles.PATH, file)) {
                for (long bytes = 0; bytes < BYTES && rows.hasNext(); ) {
                    bytes += writer.write(rows.next());
                }
                writer.finish();
            }
            TFRecordReader reader = new TFRecordReader(new ByteArrayInputStream(file.bytes()), false);
            try {
                for (byte[] record = reader.read(); record != null; record = reader.read()) {
                    records.add(record);
                }
            } catch (IOException e) {
                throw new IllegalStateException("what was just written cannot be read", e);
            }
        }
    }
}

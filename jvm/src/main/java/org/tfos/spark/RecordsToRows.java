package org.tfos.spark;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import org.tensorflow.hadoop.util.TFRecordWriter;
import org.tfos.RecordInput;
import org.tfos.RecordTable;
import scala.Function1;
import scala.Tuple2;

/** Makes rows of Examples, a block of them at a time. */
final class RecordsToRows implements FlatMapFunction<Iterator<Tuple2<BytesWritable, NullWritable>>, Row> {
    private static final long serialVersionUID = 1L;
    private static final int BYTES = 1 << 20; // of a block
    private static final StructType NO_PARTITIONS = new StructType();

    private final StructType schema;

    RecordsToRows(StructType schema) {
        TFRecordFormat.check(schema);
        this.schema = schema;
    }

    @Override
    public Iterator<Row> call(Iterator<Tuple2<BytesWritable, NullWritable>> records) {
        Rows rows = new Rows(records);
        TaskContext task = TaskContext.get();
        if (task != null) {
            task.addTaskCompletionListener((TaskCompletionListener) ended -> rows.close());
        }
        return rows;
    }

    private final class Rows implements Iterator<Row>, Closeable {
        private final Iterator<Tuple2<BytesWritable, NullWritable>> records;
        private final Function1<Object, Object> convert = CatalystTypeConverters.createToScalaConverter(schema);
        private RecordRows rows; // of the block; null before the first

        Rows(Iterator<Tuple2<BytesWritable, NullWritable>> records) {
            this.records = records;
        }

        @Override
        public boolean hasNext() {
            while ((rows == null || !rows.hasNext()) && records.hasNext()) {
                close();
                decode();
            }
            return rows != null && rows.hasNext();
        }

        @Override
        public Row next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return (Row) convert.apply(rows.next());
        }

        private void decode() {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            TFRecordWriter frames = new TFRecordWriter(new DataOutputStream(bytes));
            try {
                while (bytes.size() < BYTES && records.hasNext()) {
                    BytesWritable record = records.next()._1();
                    frames.write(record.getBytes(), 0, record.getLength());
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            MemoryFiles file = new MemoryFiles(bytes.toByteArray());
            try (RecordTable table = new RecordTable("{}")) {
                RecordInput input = new RecordInput(
                        table, MemoryFiles.PATH, bytes.size(), 0, -1, schema.json(), RecordVector.levels(schema), file);
                rows = new RecordRows(
                        new RecordBatches(input, file, null, schema, NO_PARTITIONS, null), schema);
            }
        }

        @Override
        public void close() {
            if (rows != null) {
                rows.close();
                rows = null;
            }
        }
    }
}

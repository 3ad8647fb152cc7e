package org.tfos.spark;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import org.tfos.ServedFiles;

/** One file in memory, for records that are in no other. */
final class MemoryFiles implements ServedFiles {
    static final String PATH = "memory:/records";

    private byte[] bytes;

    /** A file that is to be written. */
    MemoryFiles() {
        this(new byte[0]);
    }

    /** A file that is to be read. */
    MemoryFiles(byte[] bytes) {
        this.bytes = bytes;
    }

    byte[] bytes() {
        return bytes;
    }

    @Override
    public boolean interrupted() {
        return false;
    }

    @Override
    public Input open(String path) {
        return new Input() {
            @Override
            public long size() {
                return bytes.length;
            }

            @Override
            public int read(long offset, ByteBuffer to) {
                int count = (int) Math.min(to.remaining(), bytes.length - offset);
                to.put(bytes, (int) offset, Math.max(count, 0));
                return count;
            }

            @Override
            public void close() {}
        };
    }

    @Override
    public Output create(String path, boolean overwrite) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        return new Output() {
            @Override
            public void write(ByteBuffer more) {
                byte[] part = new byte[more.remaining()];
                more.get(part);
                all.write(part, 0, part.length);
            }

            @Override
            public void finish() {
                bytes = all.toByteArray();
            }

            @Override
            public void abandon() {}
        };
    }
}

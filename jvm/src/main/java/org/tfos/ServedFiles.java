package org.tfos;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * Files that the native library reads and writes through Java, as tfos/fs.h says at tfos_file_system. Methods may be
 * called by threads of the library; what they throw becomes the error of the call that needed them.
 */
public interface ServedFiles {
    Input open(String path) throws IOException;

    Output create(String path, boolean overwrite) throws IOException;

    /** Whether whoever reads is to stop: asked about ten times a second. */
    boolean interrupted();

    /** What has gone wrong last, or null: the cause of an input or output error of the native library. */
    default IOException failure() {
        return null;
    }

    /** Called now and then by the thread that the file is read for, for those who count what is read. */
    default void countReads(RecordInput input) {}

    /** A file that is read, from any place. */
    interface Input {
        long size();

        /** Reads at least one byte, unless the file ends there: then it returns 0 or less. */
        int read(long offset, ByteBuffer to) throws IOException;

        void close() throws IOException;
    }

    /** A file that is written, from front to back. */
    interface Output {
        void write(ByteBuffer bytes) throws IOException;

        void finish() throws IOException;

        /** Ends the writing, and leaves nothing behind. */
        void abandon() throws IOException;
    }
}

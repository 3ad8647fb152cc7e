package org.tfos.spark;

import org.apache.spark.unsafe.Platform;
import org.tfos.Handle;

/** Memory outside of the heap that grows. */
final class Memory implements AutoCloseable {
    private static final long FIRST_BYTES = 1 << 10;

    private Block block = new Block(FIRST_BYTES);
    private long capacity = FIRST_BYTES;

    /** Where it begins, until it grows. */
    long address() {
        return block.begin();
    }

    /** Makes room for so many bytes in all; what was there stays. Returns where it begins now. */
    long reserve(long bytes) {
        if (bytes > capacity) {
            long larger = Math.max(bytes, 2 * capacity);
            Block grown = new Block(larger);
            Platform.copyMemory(null, block.begin(), null, grown.begin(), capacity);
            block.close();
            block = grown;
            capacity = larger;
        }
        return block.begin();
    }

    @Override
    public void close() {
        block.close();
    }

    private static final class Block extends Handle {
        Block(long bytes) {
            super(Platform.allocateMemory(bytes), Platform::freeMemory);
        }

        long begin() {
            return address();
        }
    }
}

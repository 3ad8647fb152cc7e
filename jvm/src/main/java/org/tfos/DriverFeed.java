package org.tfos;

/** What a driver is to know of data that is fed, and of what it is validated with: see tfos_feed_options. */
public final class DriverFeed {
    final byte[][] queues;
    final long[] partitions;
    final boolean[] determinate;
    final boolean again;
    final long timeoutMs;
    private int count;

    /**
     * @param sources one, or two with what is fed after each epoch
     * @param again whether a partition may be fed again from the beginning if its task dies and its order is not known
     * @param timeoutMs without progress, while there are rows that nobody takes
     */
    public DriverFeed(int sources, boolean again, long timeoutMs) {
        queues = new byte[sources][];
        partitions = new long[sources];
        determinate = new boolean[sources];
        this.again = again;
        this.timeoutMs = timeoutMs;
    }

    /** The next source. */
    public DriverFeed add(String queue, long partitionCount, boolean sameOrder) {
        queues[count] = DriverOptions.bytesOf(queue);
        partitions[count] = partitionCount;
        determinate[count] = sameOrder;
        count++;
        return this;
    }
}

package org.tfos;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/**
 * An object of the native library. It is freed when it is closed or, where that is forgotten, when nothing refers to it
 * any more. Like the object itself, it is used by one thread at a time.
 */
public abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final AtomicLong OPEN = new AtomicLong();

    private final Owned owned;
    private final Cleaner.Cleanable cleanable;

    /** Takes over what is at an address. {@code free} must not refer to this object, which would never be freed. */
    protected Handle(long address, LongConsumer free) {
        owned = new Owned(address, free);
        OPEN.incrementAndGet();
        cleanable = CLEANER.register(this, owned);
    }

    /** How many there are in this process. */
    public static long open() {
        return OPEN.get();
    }

    protected final long address() {
        if (owned.address == 0) {
            throw new IllegalStateException(getClass().getSimpleName() + " is closed");
        }
        return owned.address;
    }

    @Override
    public void close() {
        cleanable.clean();
    }

    private static final class Owned implements Runnable {
        private long address;
        private final LongConsumer free;

        Owned(long address, LongConsumer free) {
            this.address = address;
            this.free = free;
        }

        @Override
        public void run() {
            long freed = address;
            address = 0;
            free.accept(freed);
            OPEN.decrementAndGet();
        }
    }
}

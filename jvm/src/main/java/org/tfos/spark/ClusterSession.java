package org.tfos.spark;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.util.ShutdownHookManager;
import org.apache.spark.api.java.JavaSparkContext;
import org.tfos.Driver;
import org.tfos.DriverOptions;
import org.tfos.DriverOrder;
import org.tfos.Fault;
import org.tfos.Status;
import org.tfos.TfosException;

/**
 * A cluster of the driver, over all its attempts.
 *
 * <p>What is done and when is decided by the library (tfos/driver.h). A thread of its own takes the library's orders
 * one after the other: those of a call go to whoever waits for it, the others are carried out at once. Python has the
 * same in {@code _session.py}.
 */
final class ClusterSession {
    private static final long LOOK_MS = 500; // how often the Spark context is looked at
    private static final long EXIT_MS = 75_000; // trainers have a minute for their last checkpoint
    private static final int CAUSES = 64; // exceptions that are kept, because they may be the cause of another
    private static final String GPU = "gpu"; // as Spark calls it

    /** Before Spark stops its context, and removes its folders. */
    private static final int HOOK_PRIORITY = FileSystem.SHUTDOWN_HOOK_PRIORITY + 40;

    private static final Set<ClusterSession> SESSIONS = ConcurrentHashMap.newKeySet();

    static {
        ShutdownHookManager.get()
                .addShutdownHook(
                        ClusterSession::stopAll, HOOK_PRIORITY, EXIT_MS + 1000, TimeUnit.MILLISECONDS);
    }

    private final JavaSparkContext context;
    private final boolean fed;
    private final Map<String, String> environment;
    private final List<String> settings;
    private final TensorFlowOffer tensorflow; // for nodes that have none; null: nobody is to ask
    private final Consumer<String> people; // who are told how it goes
    private final CountDownLatch over = new CountDownLatch(1); // for good: nothing is started any more
    private final Object lock = new Object();
    private final Map<Long, BlockingQueue<Optional<DriverOrder>>> calls = new HashMap<>();
    private final Map<Long, Throwable> causes = new LinkedHashMap<>(); // by job and call
    private volatile Driver driver; // null: nobody takes orders any more
    private Throwable broken; // what has ended the thread before its time
    private boolean idle; // the thread has ended: whoever calls takes the orders
    private SparkJob nodesJob;
    private volatile List<Map<String, Object>> nodes = List.of(); // once ready: what READY says of each
    private volatile String statusUrl = "";
    private volatile String tensorboard = "";

    /**
     * @param environment of the programs on the nodes
     * @param people who are told how it goes, line by line
     */
    ClusterSession(
            JavaSparkContext context,
            DriverOptions options,
            Map<String, String> environment,
            TensorFlowOffer tensorflow,
            Consumer<String> people) {
        this.context = context;
        this.fed = options.sparkFeeds;
        this.environment = environment;
        this.settings = options.settings;
        this.tensorflow = tensorflow;
        this.people = people;
        driver = new Driver(options);
        SESSIONS.add(this);
        // Properties of the caller's Spark jobs, such as the scheduler pool, are inherited and so hold for the nodes.
        start("tfos-cluster", this::takeOrders);
        start("tfos-context", this::watchContext);
    }

    static void start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void stopAll() {
        SESSIONS.forEach(session -> session.stop("the driver ends"));
        SESSIONS.forEach(ClusterSession::awaitExit);
    }

    // ---- what the program's threads call ----

    List<Map<String, Object>> nodes() {
        return nodes;
    }

    String statusUrl() {
        return statusUrl;
    }

    String tensorboard() {
        return tensorboard;
    }

    boolean isOver() {
        return over.getCount() == 0;
    }

    /** Makes a call of the driver and waits for its outcome; throws if it failed. */
    DriverOrder call(ToLongFunction<Driver> make) {
        return call(make, order -> {});
    }

    /**
     * The same, with orders on the way given to {@code carryOut}. A thread that is interrupted stops the cluster before
     * it goes on.
     */
    DriverOrder call(ToLongFunction<Driver> make, Consumer<DriverOrder> carryOut) {
        BlockingQueue<Optional<DriverOrder>> orders = new LinkedBlockingQueue<>();
        long number = begin(make, orders);
        DriverOrder done;
        try {
            done = takeUntilDone(orders, carryOut);
        } catch (InterruptedException e) {
            giveUp(number);
            Thread.currentThread().interrupt();
            String text = "the driver's thread was interrupted while it waited for the cluster, which was stopped";
            throw new TFClusterException(Status.CANCELLED, Fault.PROGRAM, text, e);
        } catch (RuntimeException | Error e) {
            giveUp(number);
            throw e;
        } finally {
            synchronized (lock) {
                calls.remove(number);
            }
        }
        return outcomeOf(done);
    }

    private DriverOrder takeUntilDone(BlockingQueue<Optional<DriverOrder>> orders, Consumer<DriverOrder> carryOut)
            throws InterruptedException {
        while (true) {
            DriverOrder order = orders.take().orElseThrow(this::brokenDown);
            if (order.kind() == DriverOrder.Kind.DONE) {
                return order;
            }
            carryOut.accept(order);
        }
    }

    private long begin(ToLongFunction<Driver> make, BlockingQueue<Optional<DriverOrder>> orders) {
        long number;
        synchronized (lock) {
            if (driver == null) {
                throw brokenDown();
            }
            number = make.applyAsLong(driver);
            calls.put(number, orders);
        }
        takeOrdersIfIdle();
        return number;
    }

    private TFClusterException brokenDown() {
        synchronized (lock) {
            String text = "the thread that runs the cluster has failed: " + broken;
            return new TFClusterException(Status.RAISED, Fault.PROGRAM, text, broken);
        }
    }

    private void giveUp(long number) {
        stop("interrupted by the driver");
        tell(told -> told.abandon(number));
        awaitExit();
    }

    private void awaitExit() {
        try {
            over.await(EXIT_MS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // nobody wants to wait
        }
    }

    /**
     * What {@code make} gives. Where the plan of a query depends on what its first stages give, Spark computes these
     * while it plans, which may take hours: that ends with the cluster, and what has ended it is thrown.
     */
    <T> T whileAlive(Supplier<T> make) {
        String group = "tfos plan " + UUID.randomUUID();
        CountDownLatch done = new CountDownLatch(1);
        start("tfos-plan", () -> cancelWhenOver(group, done));
        try {
            return SparkJob.inGroup(context.sc(), group, null, make);
        } catch (Throwable e) {
            if (isOver()) {
                call(told -> told.finish(0, -1));
            }
            throw ClusterSession.<RuntimeException>asItIs(e);
        } finally {
            done.countDown();
        }
    }

    private void cancelWhenOver(String group, CountDownLatch done) {
        try {
            while (!done.await(LOOK_MS, TimeUnit.MILLISECONDS)) {
                if (isOver()) {
                    context.sc().cancelJobGroup(group);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // nobody interrupts this thread
        }
    }

    /** Tells the driver something. */
    void tell(Consumer<Driver> report) {
        Driver told = driver;
        if (told != null) {
            report.accept(told);
            takeOrdersIfIdle();
        }
    }

    /** Stops every node; nothing is started again. */
    void stop(String reason) {
        tell(told -> told.stop(reason));
    }

    /** The same, and waits for it. */
    void end(String reason) {
        stop(reason);
        awaitExit();
    }

    /** What the status page shows, as of now; the last that was heard when the cluster is over. */
    Map<String, Object> status() {
        String text = call(Driver::askStatus).text();
        return text.isEmpty() ? Map.of() : Json.parse(text);
    }

    /** A job has ended; its error, if it is not null, may be thrown by whoever waits for it. */
    void reportJob(long number, Throwable error) {
        if (error != null) {
            noteCause(number, error);
        }
        tell(told -> told.reportJob(number, error == null ? null : SparkJob.textOf(error)));
    }

    private void noteCause(long number, Throwable error) {
        synchronized (lock) {
            causes.put(number, error);
            while (causes.size() > CAUSES) {
                causes.remove(causes.keySet().iterator().next());
            }
        }
    }

    private DriverOrder outcomeOf(DriverOrder order) {
        if (order.outcome() != DriverOrder.Outcome.FAILED) {
            return order;
        }
        Throwable cause;
        synchronized (lock) {
            cause = causes.get(order.cause());
        }
        Throwable error = cause;
        if (order.status() != Status.RAISED || cause == null) {
            error = order.status() == Status.INVALID
                    ? new TfosException(order.status(), order.fault(), order.text(), cause)
                    : new TFClusterException(order.status(), order.fault(), order.text(), cause);
        }
        noteCause(order.call(), error);
        throw ClusterSession.<RuntimeException>asItIs(error);
    }

    /** Spark's exceptions are checked ones in the eyes of Java, and thrown by methods that do not say so. */
    @SuppressWarnings("unchecked")
    private static <T extends Throwable> T asItIs(Throwable error) throws T {
        throw (T) error;
    }

    // ---- orders ----

    private void takeOrders() {
        try {
            for (DriverOrder order = driver.next(-1); order != null; order = driver.next(-1)) {
                take(order);
            }
        } catch (Throwable e) { // Spark also throws what its methods do not declare
            breakDown(e);
            return;
        }
        synchronized (lock) {
            idle = true;
        }
        takeOrdersIfIdle();
    }

    /** Nobody will take orders any more. Without the driver, the coordinator and every node end. */
    private void breakDown(Throwable error) {
        Driver ended = driver;
        synchronized (lock) {
            broken = error;
            driver = null;
            calls.values().forEach(orders -> orders.add(Optional.empty()));
        }
        setOver();
        ended.close();
    }

    private void setOver() {
        SESSIONS.remove(this);
        over.countDown();
    }

    /** Whoever calls when the thread has ended takes the answer himself. */
    private void takeOrdersIfIdle() {
        synchronized (lock) {
            while (idle) {
                DriverOrder order = driver.next(0);
                if (order == null || order.kind() == DriverOrder.Kind.NONE) {
                    return;
                }
                take(order);
            }
        }
    }

    private void take(DriverOrder order) {
        if (order.call() != 0) {
            synchronized (lock) {
                BlockingQueue<Optional<DriverOrder>> orders = calls.get(order.call());
                if (orders != null) {
                    orders.add(Optional.of(order));
                }
            }
            return;
        }
        switch (order.kind()) {
            case SAY:
                people.accept(order.text());
                break;
            case LOOK:
                look();
                break;
            case OPENED:
                statusUrl = order.text();
                break;
            case START_NODES:
                startNodes(order);
                break;
            case READY:
                nodes = Json.parseList(order.text());
                break;
            case TENSORBOARD:
                tensorboard = order.text();
                break;
            case END_NODES:
                endNodes(order);
                break;
            case OVER:
                setOver();
                break;
            default: // nothing was to be done in time
                break;
        }
    }

    /** How the context has come to its end; null while it runs. */
    private String endOfContext() {
        return context.sc().isStopped() ? "was stopped" : null;
    }

    /** Tells how Spark is. */
    private void look() {
        String end = endOfContext();
        if (end != null) {
            driver.reportSpark(-1, -1, null, null, null, end);
            return;
        }
        try {
            Slots configured = Slots.configured(context, GPU);
            String failure = nodesJob == null ? null : nodesJob.failure();
            driver.reportSpark(Slots.now(context), configured.most(), configured.reason(), failure, null, null);
        } catch (Exception e) { // the context was stopped meanwhile
            driver.reportSpark(-1, -1, null, null, SparkJob.textOf(e), endOfContext());
        }
    }

    private void startNodes(DriverOrder order) {
        try {
            int cores = Slots.coresOfNode(context, order.count());
            nodesJob = new NodeStarter(order.bytes(), cores, fed, environment, GPU)
                    .tensorflow(tensorflow)
                    .settings(settings)
                    .submit(context, order.title(), order.index(), order.count());
        } catch (Exception e) { // thrown again in the program's thread
            reportJob(0, e);
        }
    }

    private void endNodes(DriverOrder order) {
        SparkJob job = nodesJob;
        nodesJob = null;
        try {
            if (job != null && !job.awaitEnd(order.patienceMs())) {
                job.cancel();
                job.awaitEnd(order.cancelMs());
            }
        } catch (Exception e) {
            // The context was stopped, and its jobs with it.
        }
        reportJob(0, null);
    }

    private void watchContext() {
        try {
            while (!over.await(LOOK_MS, TimeUnit.MILLISECONDS)) {
                String end = endOfContext();
                if (end != null) {
                    tell(told -> told.reportContextEnd(end));
                    return;
                }
            }
        } catch (InterruptedException e) {
            // Nobody interrupts this thread.
        }
    }
}

/* The JNI side of org.tfos.Native: drivers, and what they want to know of a trainer. */
#include "jni_shell.h"

enum { COMMAND, FOLDER, HOST, CONTEXT, APPLICATION, PAYLOAD, TEXTS };
enum { PROGRAM, ENVIRONMENT, TENSORBOARD, SETTINGS, LISTS };

typedef struct driver {
    tfos_driver *driver;
    tfos_cluster_options cluster; /* which the driver needs for as long as it lives, with what it points to: */
    char *texts[TEXTS];
    size_t text_bytes[TEXTS];
    char **lists[LISTS];
} driver;

static tfos_driver *driver_at(jlong address)
{
    return ((driver *)(uintptr_t)address)->driver;
}

/* ---- texts and lists ---- */

/* The text at an index, copied; NULL without an exception: there is none. */
static char *copy_text(JNIEnv *env, jclass class, jobjectArray texts, jsize at, size_t *bytes)
{
    jbyteArray text = (*env)->GetObjectArrayElement(env, texts, at);
    char *copy = text != NULL ? tfos__jni_copy_bytes(env, class, text, bytes) : NULL;
    (*env)->DeleteLocalRef(env, text);
    return copy;
}

static void free_list(char **list)
{
    for (char **each = list; each != NULL && *each != NULL; each++) {
        free(*each);
    }
    free(list);
}

/* A list that NULL ends. NULL: an exception is pending. */
static char **copy_list(JNIEnv *env, jclass class, jobjectArray texts)
{
    size_t ignored;
    jsize count = (*env)->GetArrayLength(env, texts);
    char **list = calloc((size_t)count + 1, sizeof *list);
    if (list == NULL) {
        tfos__jni_throw_memory(env, class);
        return NULL;
    }
    for (jsize i = 0; i < count; i++) {
        list[i] = copy_text(env, class, texts, i, &ignored);
        if (list[i] == NULL) {
            free_list(list);
            return NULL;
        }
    }
    return list;
}

static void reset(driver *self)
{
    for (int i = 0; i < TEXTS; i++) {
        free(self->texts[i]);
    }
    for (int i = 0; i < LISTS; i++) {
        free_list(self->lists[i]);
    }
}

/* False: an exception is pending. */
static bool take_texts(driver *self, JNIEnv *env, jclass class, jobjectArray texts, jobjectArray lists)
{
    for (jsize i = 0; i < TEXTS; i++) {
        self->texts[i] = copy_text(env, class, texts, i, &self->text_bytes[i]);
        if ((*env)->ExceptionCheck(env)) {
            return false;
        }
    }
    for (jsize i = 0; i < LISTS; i++) {
        jobjectArray list = (*env)->GetObjectArrayElement(env, lists, i);
        if (list != NULL && (self->lists[i] = copy_list(env, class, list)) == NULL) {
            return false;
        }
    }
    return true;
}

/* ---- opening and closing ---- */

static void point_to_texts(driver *self)
{
    self->cluster.command = self->texts[COMMAND];
    self->cluster.folder = self->texts[FOLDER];
    self->cluster.host = self->texts[HOST];
    self->cluster.context = self->texts[CONTEXT];
    self->cluster.payload = self->texts[PAYLOAD];
    self->cluster.payload_bytes = self->text_bytes[PAYLOAD];
    self->cluster.program = (const char *const *)self->lists[PROGRAM];
    self->cluster.environment = (const char *const *)self->lists[ENVIRONMENT];
    self->cluster.tensorboard = (const char *const *)self->lists[TENSORBOARD];
    self->cluster.settings = (const char *const *)self->lists[SETTINGS];
}

NATIVE(jlong, driverOpen, jobjectArray texts, jobjectArray lists, jint nodes, jint restarts, jint gpus,
       jboolean spark_feeds, jlong timeout_ms)
{
    tfos_error error;
    tfos_driver_options options;
    driver *self = calloc(1, sizeof *self);
    if (self == NULL) {
        tfos__jni_throw_memory(env, class);
        return 0;
    }
    bool taken = take_texts(self, env, class, texts, lists);
    tfos_driver_options_init(&options, sizeof options);
    tfos_cluster_options_init(&self->cluster, sizeof self->cluster);
    point_to_texts(self);
    self->cluster.nodes = nodes;
    self->cluster.gpus = gpus;
    self->cluster.spark_feeds = spark_feeds;
    self->cluster.timeout_ms = timeout_ms;
    options.cluster = &self->cluster;
    options.restarts = restarts;
    options.application = self->texts[APPLICATION];
    if (taken && tfos_driver_open(&options, &self->driver, &error) == TFOS_OK) {
        return (jlong)(uintptr_t)self;
    }
    if (taken) {
        tfos__jni_throw(env, class, &error);
    }
    reset(self);
    free(self);
    return 0;
}

NATIVE(void, driverClose, jlong address)
{
    (void)env;
    (void)class;
    driver *self = (driver *)(uintptr_t)address;
    tfos_driver_close(self->driver); /* may wait for processes to end */
    reset(self);
    free(self);
}

/* ---- orders ---- */

static jbyteArray bytes_of(JNIEnv *env, const uint8_t *from, size_t count)
{
    jbyteArray bytes = (*env)->NewByteArray(env, (jsize)count);
    if (bytes != NULL && count > 0) {
        (*env)->SetByteArrayRegion(env, bytes, 0, (jsize)count, (const jbyte *)from);
    }
    return bytes;
}

/* Kind, outcome, text and title, then the bytes. NULL: an exception is pending. */
static jobjectArray texts_of(JNIEnv *env, const tfos_order *order)
{
    enum { COUNT = 5 };
    const char *const texts[COUNT - 1] = {tfos_order_kind_name(order->kind), tfos_call_outcome_name(order->outcome),
                                          order->text, order->title};
    jclass type = (*env)->FindClass(env, "[B");
    jobjectArray array = type != NULL ? (*env)->NewObjectArray(env, COUNT, type, NULL) : NULL;
    for (jsize i = 0; array != NULL && i < COUNT; i++) {
        jbyteArray each =
            i < COUNT - 1 ? tfos__jni_new_bytes(env, texts[i]) : bytes_of(env, order->bytes, order->byte_count);
        if (each == NULL) {
            return NULL;
        }
        (*env)->SetObjectArrayElement(env, array, i, each);
        (*env)->DeleteLocalRef(env, each);
    }
    return array;
}

NATIVE(jobjectArray, driverNext, jlong address, jlong timeout_ms, jlongArray numbers)
{
    tfos_order order;
    tfos_error error;
    tfos_status status = tfos_driver_next(driver_at(address), timeout_ms, &order, &error);
    if (status == TFOS_END) {
        return NULL;
    }
    if (status != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
        return NULL;
    }
    const jlong found[] = {(jlong)order.call, (jlong)order.job, order.source, order.index, order.count,       order.pid,
                           order.patience_ms, order.cancel_ms,  order.status, order.fault, (jlong)order.cause};
    (*env)->SetLongArrayRegion(env, numbers, 0, sizeof found / sizeof found[0], found);
    return texts_of(env, &order);
}

/* ---- reports ---- */

NATIVE(void, driverReportSpark, jlong address, jlong slots, jlong slots_most, jobjectArray texts)
{
    enum { REASON, FAILURE, UNANSWERED, END, COUNT };
    size_t ignored;
    char *copies[COUNT] = {NULL};
    tfos_error error;
    tfos_spark_view view;
    for (jsize i = 0; i < COUNT && !(*env)->ExceptionCheck(env); i++) {
        copies[i] = copy_text(env, class, texts, i, &ignored);
    }
    tfos_spark_view_init(&view, sizeof view);
    view.slots = slots;
    view.slots_most = slots_most;
    view.slots_reason = copies[REASON];
    view.nodes_failure = copies[FAILURE];
    view.unanswered = copies[UNANSWERED];
    view.context_end = copies[END];
    if (!(*env)->ExceptionCheck(env) && tfos_driver_report_spark(driver_at(address), &view, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
    }
    for (int i = 0; i < COUNT; i++) {
        free(copies[i]);
    }
}

/* A text for a function, copied for its time; NULL without an exception: none was given. */
static char *copy_optional(JNIEnv *env, jclass class, jbyteArray text)
{
    size_t ignored;
    return text != NULL ? tfos__jni_copy_bytes(env, class, text, &ignored) : NULL;
}

NATIVE(void, driverReportJob, jlong address, jlong job, jbyteArray failure)
{
    char *copy = copy_optional(env, class, failure);
    if (!(*env)->ExceptionCheck(env)) {
        tfos_driver_report_job(driver_at(address), (uint64_t)job, copy);
    }
    free(copy);
}

NATIVE(void, driverReportContextEnd, jlong address, jbyteArray how)
{
    char *copy = copy_optional(env, class, how);
    if (copy != NULL) {
        tfos_driver_report_context_end(driver_at(address), copy);
    }
    free(copy);
}

/* ---- calls ---- */

/* The number of a call. */
static jlong number_of(JNIEnv *env, jclass class, tfos_status status, uint64_t call, const tfos_error *error)
{
    if (status != TFOS_OK) {
        tfos__jni_throw(env, class, error);
        return 0;
    }
    return (jlong)call;
}

/* A call without arguments. */
static jlong make_call(JNIEnv *env, jclass class, jlong address,
                       tfos_status (*make)(tfos_driver *, uint64_t *, tfos_error *))
{
    uint64_t call = 0;
    tfos_error error;
    tfos_status status = make(driver_at(address), &call, &error);
    return number_of(env, class, status, call, &error);
}

NATIVE(jlong, driverAwaitNodes, jlong address)
{
    return make_call(env, class, address, tfos_driver_await_nodes);
}

NATIVE(jlong, driverAskStatus, jlong address)
{
    return make_call(env, class, address, tfos_driver_ask_status);
}

NATIVE(jlong, driverAskResults, jlong address)
{
    return make_call(env, class, address, tfos_driver_ask_results);
}

NATIVE(jlong, driverAwaitTensorboard, jlong address)
{
    return make_call(env, class, address, tfos_driver_await_tensorboard);
}

NATIVE(jlong, driverFinish, jlong address, jlong grace_ms, jlong timeout_ms)
{
    uint64_t call = 0;
    tfos_error error;
    tfos_status status = tfos_driver_finish(driver_at(address), grace_ms, timeout_ms, &call, &error);
    return number_of(env, class, status, call, &error);
}

/* The data of a feed, and what it is validated with. */
typedef struct sources {
    char *queues[2];
    tfos_feed_options options[2];
} sources;

/* False: an exception is pending. */
static bool take_sources(sources *self, JNIEnv *env, jclass class, jobjectArray queues, const jlong *partitions,
                         const jboolean *determinate)
{
    size_t ignored;
    for (jsize i = 0; i < (*env)->GetArrayLength(env, queues); i++) {
        tfos_feed_options *options = &self->options[i];
        self->queues[i] = copy_text(env, class, queues, i, &ignored);
        if (self->queues[i] == NULL) {
            return false;
        }
        tfos_feed_options_init(options, sizeof *options);
        options->queue = self->queues[i];
        options->partitions = partitions[i];
        options->determinate = determinate[i];
    }
    return true;
}

NATIVE(jlong, driverFeed, jlong address, jobjectArray queues, jlongArray partitions, jbooleanArray determinate,
       jboolean again, jlong timeout_ms, jlong epochs)
{
    sources given = {0};
    jlong counts[2] = {0};
    jboolean orders[2] = {false};
    uint64_t call = 0;
    jlong number = 0;
    tfos_error error;
    tfos_feed_call feed;
    tfos_feed_call_init(&feed, sizeof feed);
    (*env)->GetLongArrayRegion(env, partitions, 0, (*env)->GetArrayLength(env, queues), counts);
    (*env)->GetBooleanArrayRegion(env, determinate, 0, (*env)->GetArrayLength(env, queues), orders);
    if (take_sources(&given, env, class, queues, counts, orders)) {
        for (int i = 0; i < 2; i++) {
            given.options[i].again = again;
            given.options[i].timeout_ms = timeout_ms;
        }
        feed.data = &given.options[0];
        feed.validation = given.queues[1] != NULL ? &given.options[1] : NULL;
        feed.epochs = epochs;
        tfos_status status = tfos_driver_feed(driver_at(address), &feed, &call, &error);
        number = number_of(env, class, status, call, &error);
    }
    free(given.queues[0]);
    free(given.queues[1]);
    return number;
}

NATIVE(void, driverAbandon, jlong address, jlong call)
{
    (void)env;
    (void)class;
    tfos_driver_abandon(driver_at(address), (uint64_t)call);
}

NATIVE(void, driverStop, jlong address, jbyteArray reason)
{
    char *copy = copy_optional(env, class, reason);
    if (copy != NULL) {
        tfos_driver_stop(driver_at(address), copy);
    }
    free(copy);
}

/* ---- trainers ---- */

NATIVE(jbyteArray, trainerPlan, jbyteArray options, jobject files)
{
    size_t bytes = 0;
    char *plan = NULL;
    tfos_error error = {0};
    jbyteArray result = NULL;
    tfos__jni_files served = {0};
    char *text = tfos__jni_copy_bytes(env, class, options, &bytes);
    if (text != NULL && tfos__jni_files_init(&served, env, class, files)) {
        if (tfos_trainer_plan(&served.system, text, bytes, &plan, &error) == TFOS_OK) {
            result = tfos__jni_new_bytes(env, plan);
            tfos_string_free(plan);
        } else {
            tfos__jni_throw(env, class, &error);
        }
    }
    tfos__jni_files_reset(&served, env);
    free(text);
    return result;
}

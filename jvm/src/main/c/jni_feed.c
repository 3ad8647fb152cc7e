/* The JNI side of org.tfos.Native: feeding. */
#include "jni_shell.h"

/* All but the first two are those of the call that is under way: the library calls back in its thread. */
typedef struct pump {
    tfos_pump *pump;
    tfos_spark_rows *rows; /* to which the source appends */
    JNIEnv *env;
    jclass class;
    jobject source; /* NULL: of a call that cannot be interrupted */
    jmethodID fill, skip, held_bytes, interrupted;
    jthrowable thrown; /* by the source */
} pump;

static pump *pump_at(jlong address)
{
    return (pump *)(uintptr_t)address;
}

/* False: an exception is pending. */
static bool enter(pump *self, JNIEnv *env, jclass class, jobject source)
{
    jclass type = (*env)->GetObjectClass(env, source);
    self->env = env;
    self->class = class;
    self->source = source;
    self->thrown = NULL;
    bool found = (self->fill = (*env)->GetMethodID(env, type, "fill", "(JJ)Z")) != NULL &&
                 (self->skip = (*env)->GetMethodID(env, type, "skip", "(J)J")) != NULL &&
                 (self->held_bytes = (*env)->GetMethodID(env, type, "heldBytes", "()J")) != NULL &&
                 (self->interrupted = (*env)->GetMethodID(env, type, "interrupted", "()Z")) != NULL;
    (*env)->DeleteLocalRef(env, type); /* a task comes here once for each of its results */
    return found;
}

/* True for OK, false for END; an exception otherwise: that of the source, if it is what the call has ended with. */
static bool leave(pump *self, tfos_status status, const tfos_error *error)
{
    JNIEnv *env = self->env;
    if (self->thrown != NULL && (status == TFOS_RAISED || status == TFOS_CANCELLED)) {
        (*env)->Throw(env, self->thrown);
    } else if (status != TFOS_OK && status != TFOS_END) {
        tfos__jni_throw(env, self->class, error);
    }
    return status == TFOS_OK;
}

/* Whether the source has thrown. It is kept, for nothing of Java may be called while an exception is pending. */
static bool keep_thrown(pump *self)
{
    JNIEnv *env = self->env;
    jthrowable thrown = (*env)->ExceptionOccurred(env);
    if (thrown == NULL) {
        return false;
    }
    (*env)->ExceptionClear(env);
    self->thrown = thrown;
    return true;
}

static tfos_status describe_thrown(const pump *self, tfos_error *error)
{
    return tfos__jni_describe(self->env, self->class, self->thrown, error);
}

static bool is_interrupted(void *context)
{
    pump *self = context;
    if (self->source == NULL) {
        return false;
    }
    jthrowable before = self->thrown;
    bool interrupted = (*self->env)->CallBooleanMethod(self->env, self->source, self->interrupted);
    bool thrown = keep_thrown(self);
    self->thrown = before != NULL ? before : self->thrown;
    return interrupted || thrown;
}

static tfos_status next_rows(void *context, int64_t patience_ms, int64_t held_bytes, tfos_batch **out,
                             tfos_error *error)
{
    pump *self = context;
    bool more = (*self->env)->CallBooleanMethod(self->env, self->source, self->fill, patience_ms, held_bytes);
    if (keep_thrown(self)) {
        return describe_thrown(self, error);
    }
    tfos_status status = tfos_spark_rows_take(self->rows, out, error);
    return status != TFOS_OK || more ? status : TFOS_END;
}

static tfos_status skip_rows(void *context, int64_t count, int64_t *skipped, tfos_error *error)
{
    pump *self = context;
    *skipped = (*self->env)->CallLongMethod(self->env, self->source, self->skip, count);
    if (keep_thrown(self)) {
        return describe_thrown(self, error);
    }
    tfos_spark_rows_skip(self->rows, *skipped);
    return TFOS_OK;
}

static int64_t held_bytes_of(void *context)
{
    pump *self = context;
    int64_t bytes = (*self->env)->CallLongMethod(self->env, self->source, self->held_bytes);
    return keep_thrown(self) ? 0 : bytes;
}

static tfos_pump_source source_of(pump *self)
{
    tfos_pump_source source;
    tfos_pump_source_init(&source, sizeof source);
    source.context = self;
    source.next = next_rows;
    source.skip = skip_rows;
    source.held_bytes = held_bytes_of;
    return source;
}

/* Whether it was opened; otherwise an exception is pending, or there is nothing to do. */
static bool is_open(pump *self, tfos_status status, const tfos_error *error)
{
    if (!leave(self, status, error)) {
        return false;
    }
    tfos_spark_rows_set_pump(self->rows, self->pump);
    return true;
}

static bool open_pump(pump *self, tfos_feeder_options *options)
{
    tfos_error error = {0};
    const tfos_pump_source source = source_of(self);
    options->interrupted = is_interrupted;
    options->interrupted_context = self;
    return is_open(self, tfos_pump_open(options, &source, &self->pump, &error), &error);
}

static bool open_line(pump *self, tfos_line_options *options)
{
    tfos_error error = {0};
    const tfos_pump_source source = source_of(self);
    options->interrupted = is_interrupted;
    options->interrupted_context = self;
    return is_open(self, tfos_pump_open_line(options, &source, &self->pump, &error), &error);
}

NATIVE(jlong, pumpOpen, jbyteArray ticket, jlong partition, jlong attempt, jbyteArray host, jlong rows_address,
       jobject source)
{
    tfos_feeder_options options;
    size_t host_bytes;
    tfos_feeder_options_init(&options, sizeof options);
    pump *self = calloc(1, sizeof *self);
    char *ticket_copy = self != NULL ? tfos__jni_copy_bytes(env, class, ticket, &options.ticket_bytes) : NULL;
    char *host_copy = ticket_copy != NULL ? tfos__jni_copy_bytes(env, class, host, &host_bytes) : NULL;
    bool opened = false;
    if (self == NULL) {
        tfos__jni_throw_memory(env, class);
    } else if (host_copy != NULL && enter(self, env, class, source)) {
        self->rows = tfos__jni_rows_at(rows_address)->rows;
        options.ticket = ticket_copy;
        options.partition = (uint64_t)partition;
        options.attempt = (uint64_t)attempt;
        options.host = host_copy;
        opened = open_pump(self, &options);
    }
    free(ticket_copy);
    free(host_copy);
    if (!opened) {
        free(self);
        return 0;
    }
    return (jlong)(uintptr_t)self;
}

NATIVE(jlong, pumpOpenLine, jbyteArray name, jbyteArray token, jbyteArray order, jlong partition, jlong rows_address,
       jobject source)
{
    tfos_line_options options;
    size_t name_bytes;
    tfos_line_options_init(&options, sizeof options);
    pump *self = calloc(1, sizeof *self);
    char *name_copy = self != NULL ? tfos__jni_copy_bytes(env, class, name, &name_bytes) : NULL;
    char *token_copy = name_copy != NULL ? tfos__jni_copy_bytes(env, class, token, &options.token_bytes) : NULL;
    char *order_copy = token_copy != NULL ? tfos__jni_copy_bytes(env, class, order, &options.order_bytes) : NULL;
    bool opened = false;
    if (self == NULL) {
        tfos__jni_throw_memory(env, class);
    } else if (order_copy != NULL && enter(self, env, class, source)) {
        self->rows = tfos__jni_rows_at(rows_address)->rows;
        options.name = name_copy;
        options.token = token_copy;
        options.order = order_copy;
        options.partition = (uint64_t)partition;
        opened = open_line(self, &options);
    }
    free(name_copy);
    free(token_copy);
    free(order_copy);
    if (!opened) {
        free(self);
        return 0;
    }
    return (jlong)(uintptr_t)self;
}

/* The next results. False: there will be none, or an exception is pending. */
static bool next_results(pump *self, JNIEnv *env, jclass class, jobject source, tfos_batch **out)
{
    tfos_error error = {0};
    return enter(self, env, class, source) && leave(self, tfos_pump_next(self->pump, out, &error), &error);
}

/* Results that are of no use: false, and an exception is pending. */
static bool refuse_results(pump *self, tfos_error *error)
{
    tfos_pump_give_up(self->pump, error);
    tfos__jni_throw(self->env, self->class, error);
    return false;
}

NATIVE(void, pumpRun, jlong address, jobject source)
{
    tfos_batch *results = NULL;
    while (next_results(pump_at(address), env, class, source, &results)) {
        tfos_batch_free(results);
    }
}

NATIVE(jboolean, pumpResults, jlong address, jlong writer_address, jlong first, jobject source)
{
    tfos_error error = {0};
    tfos_batch *batch = NULL;
    pump *self = pump_at(address);
    tfos__jni_writer *to = tfos__jni_writer_at(writer_address);
    if (!next_results(self, env, class, source, &batch)) {
        return false;
    }
    tfos_status status = tfos_spark_writer_write(to->writer, batch, first, &to->block, &to->bytes, &error);
    tfos_batch_free(batch);
    return status == TFOS_OK || refuse_results(self, &error);
}

NATIVE(jbyteArray, pumpResultSchema, jlong address, jobject source)
{
    tfos_error error = {0};
    tfos_batch *batch = NULL;
    char *text = NULL;
    jbyteArray bytes = NULL;
    pump *self = pump_at(address);
    if (!next_results(self, env, class, source, &batch)) {
        return NULL;
    }
    if (tfos_schema_to_spark(tfos_batch_schema(batch), &text, &error) == TFOS_OK || refuse_results(self, &error)) {
        bytes = tfos__jni_new_bytes(env, text);
    }
    tfos_string_free(text);
    tfos_batch_free(batch);
    return bytes;
}

NATIVE(void, pumpClose, jlong address)
{
    (void)env;
    (void)class;
    pump *self = pump_at(address);
    self->source = NULL; /* that of an earlier call is not valid any more */
    tfos_pump_close(self->pump);
    free(self);
}

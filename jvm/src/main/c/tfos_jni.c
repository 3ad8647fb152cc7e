/* The JNI side of org.tfos.Native: converts arguments, calls libtfos, translates what comes back, and nothing else. */
#include <jni.h>
#include <stdlib.h>
#include <string.h>

#include "tfos.h"

#define NATIVE(result, name, ...)                                                                                      \
    JNIEXPORT result JNICALL Java_org_tfos_Native_##name(JNIEnv *env, jclass class __VA_OPT__(, ) __VA_ARGS__);        \
    JNIEXPORT result JNICALL Java_org_tfos_Native_##name(JNIEnv *env, jclass class __VA_OPT__(, ) __VA_ARGS__)

/* ---- the library ---- */

/* The version of the libtfos that this process has loaded … */
NATIVE(jstring, loadedVersion)
{
    (void)class;
    return (*env)->NewStringUTF(env, tfos_version());
}

/* … and the one that this file was compiled for. They differ when another class loader brought an older jar. */
NATIVE(jstring, builtVersion)
{
    (void)class;
    return (*env)->NewStringUTF(env, TFOS_VERSION);
}

NATIVE(jstring, nameOfStatus, jint status)
{
    (void)class;
    return (*env)->NewStringUTF(env, tfos_status_name((tfos_status)status));
}

NATIVE(jstring, textOfStatus, jint status)
{
    (void)class;
    return (*env)->NewStringUTF(env, tfos_status_text((tfos_status)status));
}

NATIVE(jstring, nameOfFault, jint fault)
{
    (void)class;
    return (*env)->NewStringUTF(env, tfos_fault_name((tfos_fault)fault));
}

/* ---- texts and failures ---- */

/* Texts cross as bytes, because the UTF-8 of JNI is not that of the rest of the world. NULL: an exception is pending.
 */
static jbyteArray new_bytes(JNIEnv *env, const char *text)
{
    jsize count = (jsize)strlen(text);
    jbyteArray bytes = (*env)->NewByteArray(env, count);
    if (bytes != NULL) {
        (*env)->SetByteArrayRegion(env, bytes, 0, count, (const jbyte *)text);
    }
    return bytes;
}

/* Makes the exception pending that this failure is. */
static void throw_error(JNIEnv *env, jclass class, const tfos_error *error)
{
    jmethodID method = (*env)->GetStaticMethodID(env, class, "fail", "(II[B)V");
    jbyteArray message = method != NULL ? new_bytes(env, error->message) : NULL;
    if (message != NULL) {
        (*env)->CallStaticVoidMethod(env, class, method, (jint)error->status, (jint)error->fault, message);
    }
}

static void throw_memory(JNIEnv *env, jclass class)
{
    throw_error(env, class, &(tfos_error){.status = TFOS_NO_MEMORY, .message = "no memory for what Java has passed"});
}

/* A copy of the bytes with a NUL behind them, for the caller to free. NULL: an exception is pending. */
static char *copy_bytes(JNIEnv *env, jclass class, jbyteArray bytes, size_t *count)
{
    jsize length = (*env)->GetArrayLength(env, bytes);
    char *copy = malloc((size_t)length + 1);
    if (copy == NULL) {
        throw_memory(env, class);
        return NULL;
    }
    (*env)->GetByteArrayRegion(env, bytes, 0, length, (jbyte *)copy);
    copy[length] = '\0';
    *count = (size_t)length;
    return copy;
}

/* ---- rows of Spark ---- */

typedef struct rows {
    tfos_spark_rows *rows;
    void *block;
    size_t columns;
    size_t levels;              /* of all columns; 0: they cannot come in vectors */
    tfos_spark_vector *vectors; /* the columns, then what is in the lists of one after the other */
} rows;

static rows *rows_at(jlong address)
{
    return (rows *)(uintptr_t)address;
}

NATIVE(void, rowsFree, jlong address)
{
    (void)env;
    (void)class;
    rows *self = rows_at(address);
    tfos_spark_rows_free(self->rows);
    free(self->block);
    free(self->vectors);
    free(self);
}

/* Connects the vectors of lists with what is in them. False: no memory. */
static bool make_vectors(rows *self)
{
    tfos_spark_form form;
    self->columns = tfos_schema_field_count(tfos_spark_rows_schema(self->rows));
    size_t levels = self->columns;
    for (size_t i = 0; i < self->columns; i++) {
        if (!tfos_spark_rows_form(self->rows, i, &form)) {
            return true;
        }
        levels += (size_t)form.lists;
    }
    self->vectors = calloc(levels, sizeof *self->vectors);
    if (self->vectors == NULL) {
        return false;
    }
    self->levels = levels;
    size_t next = self->columns;
    for (size_t i = 0; i < self->columns; i++) {
        tfos_spark_rows_form(self->rows, i, &form);
        tfos_spark_vector *vector = &self->vectors[i];
        for (int list = 0; list < form.lists; list++) {
            vector->child = &self->vectors[next];
            vector = &self->vectors[next++];
        }
    }
    return true;
}

NATIVE(jlong, rowsNew, jbyteArray description)
{
    tfos_error error = {0};
    size_t count = 0;
    char *text = copy_bytes(env, class, description, &count);
    rows *self = text != NULL ? calloc(1, sizeof *self) : NULL;
    if (text != NULL && self == NULL) {
        throw_memory(env, class);
    }
    if (self != NULL && tfos_spark_rows_new(text, count, &self->rows, &error) != TFOS_OK) {
        throw_error(env, class, &error);
        free(self);
        self = NULL;
    }
    if (self != NULL && !make_vectors(self)) {
        throw_memory(env, class);
        tfos_spark_rows_free(self->rows);
        free(self);
        self = NULL;
    }
    free(text);
    return (jlong)(uintptr_t)self;
}

NATIVE(jlong, rowsBlock, jlong address, jlong bytes)
{
    rows *self = rows_at(address);
    void *block = malloc((size_t)bytes);
    if (block == NULL) {
        throw_memory(env, class);
        return 0;
    }
    free(self->block);
    self->block = block;
    return (jlong)(uintptr_t)block;
}

NATIVE(jbyteArray, rowsSchema, jlong address)
{
    tfos_error error = {0};
    char *text;
    if (tfos_schema_to_json(tfos_spark_rows_schema(rows_at(address)->rows), &text, &error) != TFOS_OK) {
        throw_error(env, class, &error);
        return NULL;
    }
    jbyteArray bytes = new_bytes(env, text);
    tfos_string_free(text);
    return bytes;
}

NATIVE(jlong, rowsAppend, jlong address, jlong block, jlong bytes)
{
    tfos_error error = {0};
    size_t used = 0;
    const void *from = (const void *)(uintptr_t)block;
    if (tfos_spark_rows_append(rows_at(address)->rows, from, (size_t)bytes, &used, &error) != TFOS_OK) {
        throw_error(env, class, &error);
    }
    return (jlong)used;
}

NATIVE(void, rowsCheck, jlong address, jlong head)
{
    tfos_error error = {0};
    if (tfos_spark_rows_check(rows_at(address)->rows, (const void *)(uintptr_t)head, &error) != TFOS_OK) {
        throw_error(env, class, &error);
    }
}

NATIVE(void, rowsRefuse, jlong address, jint column, jlong bytes)
{
    tfos_error error = {0};
    if (tfos_spark_rows_refuse(rows_at(address)->rows, (size_t)column, bytes, &error) != TFOS_OK) {
        throw_error(env, class, &error);
    }
}

NATIVE(jlongArray, rowsForms, jlong address)
{
    /* The letters by which JNI knows Java's types. */
    static const char letters[] = {
        [TFOS_SPARK_VALUE_BOOLEAN] = 'Z', [TFOS_SPARK_VALUE_BYTE] = 'B',  [TFOS_SPARK_VALUE_SHORT] = 'S',
        [TFOS_SPARK_VALUE_INT] = 'I',     [TFOS_SPARK_VALUE_LONG] = 'J',  [TFOS_SPARK_VALUE_FLOAT] = 'F',
        [TFOS_SPARK_VALUE_DOUBLE] = 'D',  [TFOS_SPARK_VALUE_BYTES] = 'L',
    };
    enum { WORDS = 5 };
    (void)class;
    const rows *self = rows_at(address);
    jlongArray forms = self->levels > 0 ? (*env)->NewLongArray(env, (jsize)(self->columns * WORDS)) : NULL;
    for (size_t i = 0; forms != NULL && i < self->columns; i++) {
        tfos_spark_form form;
        tfos_spark_rows_form(self->rows, i, &form);
        const jlong words[WORDS] = {letters[form.value], form.lists, form.precision, form.scale, form.row_bytes};
        (*env)->SetLongArrayRegion(env, forms, (jsize)(i * WORDS), WORDS, words);
    }
    return forms;
}

/* Fills a vector, and returns where the words of the next one are. */
static const jlong *set_vector(tfos_spark_vector *vector, const jlong *words)
{
    vector->length = words[0];
    vector->values = (const void *)(uintptr_t)words[1];
    vector->offsets = (const int32_t *)(uintptr_t)words[2];
    vector->nulls = (const uint8_t *)(uintptr_t)words[3];
    return words + 4;
}

NATIVE(jlong, rowsAppendColumns, jlong address, jlongArray words, jlong first, jlong count)
{
    tfos_error error = {0};
    int64_t used = 0;
    rows *self = rows_at(address);
    if ((size_t)(*env)->GetArrayLength(env, words) != self->levels * 4) {
        error.status = TFOS_INVALID;
        strncpy(error.message, "the words are not those of the vectors", sizeof error.message - 1);
        throw_error(env, class, &error);
        return 0;
    }
    jlong *all = (*env)->GetLongArrayElements(env, words, NULL);
    if (all == NULL) {
        throw_memory(env, class);
        return 0;
    }
    const jlong *next = all;
    size_t inner = self->columns;
    for (size_t i = 0; i < self->columns; i++) {
        next = set_vector(&self->vectors[i], next);
        for (const tfos_spark_vector *list = &self->vectors[i]; list->child != NULL; list = list->child) {
            next = set_vector(&self->vectors[inner++], next);
        }
    }
    (*env)->ReleaseLongArrayElements(env, words, all, JNI_ABORT);
    if (tfos_spark_rows_append_columns(self->rows, self->vectors, first, count, &used, &error) != TFOS_OK) {
        throw_error(env, class, &error);
    }
    return used;
}

NATIVE(void, rowsSkip, jlong address, jlong count)
{
    (void)env;
    (void)class;
    tfos_spark_rows_skip(rows_at(address)->rows, count);
}

NATIVE(jlong, rowsCount, jlong address)
{
    (void)env;
    (void)class;
    return tfos_spark_rows_count(rows_at(address)->rows);
}

NATIVE(jboolean, rowsFull, jlong address)
{
    (void)env;
    (void)class;
    return tfos_spark_rows_full(rows_at(address)->rows);
}

/* ---- rows for Spark ---- */

typedef struct writer {
    tfos_spark_writer *writer;
    const void *block; /* of the rows that were written last */
    size_t bytes;
} writer;

static writer *writer_at(jlong address)
{
    return (writer *)(uintptr_t)address;
}

NATIVE(jlong, writerNew, jbyteArray schema)
{
    tfos_error error = {0};
    size_t count = 0;
    char *text = copy_bytes(env, class, schema, &count);
    writer *self = text != NULL ? calloc(1, sizeof *self) : NULL;
    if (text != NULL && self == NULL) {
        throw_memory(env, class);
    }
    if (self != NULL && tfos_spark_writer_new(text, count, &self->writer, &error) != TFOS_OK) {
        throw_error(env, class, &error);
        free(self);
        self = NULL;
    }
    free(text);
    return (jlong)(uintptr_t)self;
}

NATIVE(jlong, writerBlock, jlong address)
{
    (void)env;
    (void)class;
    return (jlong)(uintptr_t)writer_at(address)->block;
}

NATIVE(jlong, writerBytes, jlong address)
{
    (void)env;
    (void)class;
    return (jlong)writer_at(address)->bytes;
}

NATIVE(void, writerFree, jlong address)
{
    (void)env;
    (void)class;
    tfos_spark_writer_free(writer_at(address)->writer);
    free(writer_at(address));
}

/* ---- feeding ---- */

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
    return (self->fill = (*env)->GetMethodID(env, type, "fill", "(JJ)Z")) != NULL &&
           (self->skip = (*env)->GetMethodID(env, type, "skip", "(J)J")) != NULL &&
           (self->held_bytes = (*env)->GetMethodID(env, type, "heldBytes", "()J")) != NULL &&
           (self->interrupted = (*env)->GetMethodID(env, type, "interrupted", "()Z")) != NULL;
}

/* True for OK, false for END; an exception otherwise: that of the source, if it is what the call has ended with. */
static bool leave(pump *self, tfos_status status, const tfos_error *error)
{
    JNIEnv *env = self->env;
    if (self->thrown != NULL && (status == TFOS_RAISED || status == TFOS_CANCELLED)) {
        (*env)->Throw(env, self->thrown);
    } else if (status != TFOS_OK && status != TFOS_END) {
        throw_error(env, self->class, error);
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

/* The error that the source has thrown, as the library knows errors. */
static tfos_status describe_thrown(const pump *self, tfos_error *error)
{
    JNIEnv *env = self->env;
    jbyte kind[2] = {TFOS_RAISED, TFOS_FAULT_AGAIN};
    jmethodID method = (*env)->GetStaticMethodID(env, self->class, "describe", "(Ljava/lang/Throwable;)[B");
    jbyteArray bytes = method != NULL ? (*env)->CallStaticObjectMethod(env, self->class, method, self->thrown) : NULL;
    memset(error, 0, sizeof *error);
    if (bytes != NULL && !(*env)->ExceptionCheck(env)) {
        jsize count = (*env)->GetArrayLength(env, bytes) - (jsize)sizeof kind;
        jsize most = (jsize)sizeof error->message - 1;
        (*env)->GetByteArrayRegion(env, bytes, 0, sizeof kind, kind);
        (*env)->GetByteArrayRegion(env, bytes, sizeof kind, count < most ? count : most, (jbyte *)error->message);
    }
    (*env)->ExceptionClear(env); /* there was no memory for it */
    error->status = (tfos_status)kind[0];
    error->fault = (tfos_fault)kind[1];
    return error->status;
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

static bool open_pump(pump *self, tfos_feeder_options *options)
{
    tfos_error error = {0};
    tfos_pump_source source;
    tfos_pump_source_init(&source, sizeof source);
    source.context = self;
    source.next = next_rows;
    source.skip = skip_rows;
    source.held_bytes = held_bytes_of;
    options->interrupted = is_interrupted;
    options->interrupted_context = self;
    if (!leave(self, tfos_pump_open(options, &source, &self->pump, &error), &error)) {
        return false;
    }
    tfos_spark_rows_set_feeder(self->rows, tfos_pump_feeder(self->pump));
    return true;
}

NATIVE(jlong, pumpOpen, jbyteArray ticket, jlong partition, jlong attempt, jbyteArray host, jlong rows_address,
       jobject source)
{
    tfos_feeder_options options;
    size_t host_bytes;
    tfos_feeder_options_init(&options, sizeof options);
    pump *self = calloc(1, sizeof *self);
    char *ticket_copy = self != NULL ? copy_bytes(env, class, ticket, &options.ticket_bytes) : NULL;
    char *host_copy = ticket_copy != NULL ? copy_bytes(env, class, host, &host_bytes) : NULL;
    bool opened = false;
    if (self == NULL) {
        throw_memory(env, class);
    } else if (host_copy != NULL && enter(self, env, class, source)) {
        self->rows = rows_at(rows_address)->rows;
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
    throw_error(self->env, self->class, error);
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
    writer *to = writer_at(writer_address);
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
        bytes = new_bytes(env, text);
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

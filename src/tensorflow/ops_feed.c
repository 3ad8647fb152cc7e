/* TfosFeedNext: the source of a tf.data.Dataset over a queue.
 *
 * A kernel knows the columns that are wanted. The types that rows were fed with are known when the first rows are
 * there: then `as` is made, the schema of the batches that it takes, which has the shapes that are wanted and the types
 * that were fed. The consumer keeps rows that it has taken for a batch that is not full, and knows by the schema
 * whether they fit the next call, which may come from another iterator and so from another kernel.
 *
 * Why calls are short: an iterator that is given up waits for the call that is under way, and there is no way to tell a
 * kernel in C. Why they look at SIGINT: a program that waits for a batch in TensorFlow does not get to handle it, since
 * Python does so only between instructions of its own. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "column/convert.h"
#include "tensorflow/ops.h"

enum { STATE_ROWS, STATE_AGAIN, STATE_END };

enum { QUEUE_BYTES = 256 };

static const tfos__tensorflow *tf;

typedef struct kernel {
    char queue[QUEUE_BYTES];
    tfos_schema *wanted;
    int64_t batch_size;
    bool drop_remainder;
    bool split_epochs;
    int64_t epoch;

    pthread_mutex_t lock; /* iterators of one dataset share a kernel */
    tfos_feed *feed;      /* NULL until the first call */
    tfos_schema *as;
    atomic_uint interrupts;   /* SIGINTs that came before the wait that is going on … */
    _Atomic int64_t again_ms; /* … which was left at this time, to come back at once; 0: none is */
} kernel;

/* ---- SIGINT ---- */

static bool is_interrupted(void *context)
{
    kernel *self = context;
    return tfos__ops_interrupts() != atomic_load(&self->interrupts);
}

/* A wait goes on if this call follows the one before it at once; otherwise another one begins. */
static void begin_wait(kernel *self)
{
    enum { AT_ONCE_MS = 10000 }; /* a thread may get no processor for a while; an interrupt meanwhile is meant for it */
    if (tfos__clock_ms() - atomic_load(&self->again_ms) > AT_ONCE_MS) {
        atomic_store(&self->interrupts, tfos__ops_interrupts());
    }
}

/* ---- schemas ---- */

static tfos_status fail_missing(const tfos_schema *fed, tfos_error *error)
{
    char names[512] = "";
    for (size_t i = 0; i < tfos_schema_field_count(fed); i++) {
        const char *found = tfos_schema_field(fed, i)->name;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", tfos__printable_text(found).text);
    }
    return tfos__fail(error, TFOS_MISMATCH, "the rows have no such column; they have: %s", names);
}

/* The field of the batches to take: wanted as to its shape, fed as to its type. */
static tfos_status join_field(const tfos_field *wanted, const tfos_schema *fed, tfos_field *out, tfos_error *error)
{
    int64_t at = tfos_schema_find(fed, wanted->name);
    if (at < 0) {
        return fail_missing(fed, error);
    }
    const tfos_field *found = tfos_schema_field(fed, (size_t)at);
    if (!tfos__convert_allows(found->type, wanted->type)) {
        return tfos__fail(
            error, TFOS_MISMATCH,
            "expected %s, found %s, which is not converted without loss; ask for %s and convert it in the "
            "program",
            tfos_type_name(wanted->type), tfos_type_name(found->type), tfos_type_name(found->type));
    }
    *out = *wanted;
    out->type = found->type;
    out->nullable = found->nullable;
    if (found->feature_list && found->shape == TFOS_SHAPE_SCALAR && !wanted->feature_list &&
        wanted->shape == TFOS_SHAPE_RAGGED) {
        out->feature_list = true; /* a list of any length by its other name */
        out->shape = TFOS_SHAPE_SCALAR;
    }
    return TFOS_OK;
}

static tfos_status join_schemas(const tfos_schema *wanted, const tfos_schema *fed, tfos_schema **out, tfos_error *error)
{
    tfos_schema *joined;
    TFOS_TRY(tfos_schema_new(TFOS_RECORD_SEQUENCE, &joined, error));
    for (size_t i = 0; i < tfos_schema_field_count(wanted); i++) {
        const tfos_field *field = tfos_schema_field(wanted, i);
        tfos_field taken;
        tfos_status status = join_field(field, fed, &taken, error);
        status = status == TFOS_OK ? tfos_schema_add(joined, &taken, error) : status;
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "column '%s'", tfos__printable_text(field->name).text);
            tfos_schema_free(joined);
            return status;
        }
    }
    *out = joined;
    return TFOS_OK;
}

/* Opens the queue and makes `as`, when that has not been done and as soon as it can be. CANCELLED: not yet. */
static tfos_status prepare(kernel *self, const tfos_feed_want *want, tfos_error *error)
{
    tfos_schema *fed;
    if (self->feed == NULL) {
        TFOS_TRY(tfos_feed_open(self->queue, &self->feed, error));
    }
    if (self->as != NULL) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos_feed_schema(self->feed, want, &fed, error));
    tfos_status status = join_schemas(self->wanted, fed, &self->as, error);
    tfos_schema_free(fed);
    return status;
}

/* ---- the call ---- */

static int code_of(tfos_status status)
{
    switch (status) {
    case TFOS_CANCELLED:
        return TFOS__TF_CANCELLED;
    case TFOS_INVALID:
    case TFOS_MISMATCH:
    case TFOS_RANGE:
        return TFOS__TF_INVALID_ARGUMENT;
    case TFOS_NO_MEMORY:
    case TFOS_LIMIT:
        return TFOS__TF_RESOURCE_EXHAUSTED;
    case TFOS_NOT_FOUND:
    case TFOS_UNSUPPORTED:
        return TFOS__TF_FAILED_PRECONDITION;
    default:
        return TFOS__TF_INTERNAL;
    }
}

static tfos_status take(kernel *self, tfos_batch **out, tfos_error *error)
{
    tfos_feed_want want;
    tfos_feed_want_init(&want, sizeof want);
    want.rows = self->batch_size;
    want.split_epochs = self->split_epochs;
    want.epoch = self->epoch;
    want.timeout_ms = TFOS__OPS_WAIT_MS;
    want.interrupted = is_interrupted;
    want.interrupted_context = self;
    begin_wait(self);
    pthread_mutex_lock(&self->lock);
    tfos_status status = prepare(self, &want, error);
    want.as = self->as;
    pthread_mutex_unlock(&self->lock);
    return status == TFOS_OK ? tfos_feed_next(self->feed, &want, out, error) : status;
}

static tfos_status write_rows(kernel *self, tfos__ops_outputs *out, tfos_batch *batch, tfos_error *error)
{
    for (size_t i = 0; i < tfos_schema_field_count(self->wanted); i++) {
        const tfos_field *field = tfos_schema_field(self->wanted, i);
        tfos_status status = tfos__ops_write_column(out, batch, i, field, error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "column '%s'", tfos__printable_text(field->name).text);
            return status;
        }
    }
    return TFOS_OK;
}

static tfos_status write_nothing(kernel *self, tfos__ops_outputs *out, tfos_error *error)
{
    for (size_t i = 0; i < tfos_schema_field_count(self->wanted); i++) {
        TFOS_TRY(tfos__ops_write_empty(out, tfos_schema_field(self->wanted, i), error));
    }
    return TFOS_OK;
}

static tfos_status write_all(kernel *self, tfos__ops_outputs *out, int32_t state, tfos_batch *batch, tfos_error *error)
{
    TFOS_TRY(tfos__ops_write_flag(out, state != STATE_END, error));
    TFOS_TRY(tfos__ops_write_flag(out, state == STATE_ROWS, error));
    return state == STATE_ROWS ? write_rows(self, out, batch, error) : write_nothing(self, out, error);
}

static tfos_status next(kernel *self, tfos__ops_outputs *out, tfos_error *error)
{
    tfos_batch *batch = NULL;
    int32_t state = STATE_ROWS;
    tfos_status status = take(self, &batch, error);
    bool again = status == TFOS_CANCELLED && !is_interrupted(self);
    atomic_store(&self->again_ms, again ? tfos__clock_ms() : 0);
    if (again) {
        state = STATE_AGAIN;
    } else if (status == TFOS_END) {
        state = STATE_END;
    } else if (status != TFOS_OK) {
        return status;
    } else if (self->drop_remainder && tfos_batch_rows(batch) < self->batch_size) {
        state = STATE_AGAIN;
    }
    status = write_all(self, out, state, batch, error);
    tfos_batch_free(batch);
    return status;
}

static void compute(void *data, TF_OpKernelContext *context)
{
    kernel *self = data;
    tfos_error error;
    tfos__ops_outputs out = {.tf = tf, .context = context, .status = tf->TF_NewStatus()};
    tfos_status status = next(self, &out, &error);
    if (status != TFOS_OK) {
        char text[TFOS_ERROR_MESSAGE_BYTES + QUEUE_BYTES + 32];
        snprintf(text, sizeof text, "the feed '%s': %s", self->queue, error.message);
        tf->TF_SetStatus(out.status, code_of(status), text);
        tf->TF_OpKernelContext_Failure(context, out.status);
    }
    tf->TF_DeleteStatus(out.status);
}

/* ---- making a kernel ---- */

static void destroy(void *data)
{
    kernel *self = data;
    if (self != NULL) {
        tfos_feed_close(self->feed);
        tfos_schema_free(self->wanted);
        tfos_schema_free(self->as);
        pthread_mutex_destroy(&self->lock);
        free(self);
    }
}

static tfos_status read_texts(kernel *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    size_t queue_bytes = 0;
    size_t bytes = 0;
    char *queue = tfos__ops_read_text(tf, from, "queue", &queue_bytes, status);
    char *schema = tfos__ops_read_text(tf, from, "schema", &bytes, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, "TfosFeedNext", error);
    if (ours == TFOS_OK && (queue == NULL || schema == NULL)) {
        ours = tfos__fail_memory(error, queue_bytes + bytes);
    } else if (ours == TFOS_OK && queue_bytes >= sizeof self->queue) {
        ours = tfos__fail(error, TFOS_INVALID, "the name of a queue has %zu bytes, expected fewer than %zu",
                          queue_bytes, sizeof self->queue);
    } else if (ours == TFOS_OK) {
        memcpy(self->queue, queue, queue_bytes);
        ours = tfos_schema_from_json(schema, bytes, &self->wanted, error);
    }
    free(queue);
    free(schema);
    return ours;
}

static tfos_status read_attributes(kernel *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    unsigned char drop_remainder = 0;
    unsigned char split_epochs = 0;
    TFOS_TRY(read_texts(self, from, status, error));
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "batch_size", &self->batch_size, status);
    tf->TF_OpKernelConstruction_GetAttrBool(from, "drop_remainder", &drop_remainder, status);
    tf->TF_OpKernelConstruction_GetAttrBool(from, "split_epochs", &split_epochs, status);
    self->drop_remainder = drop_remainder != 0;
    self->split_epochs = split_epochs != 0;
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "epoch", &self->epoch, status);
    return tfos__tensorflow_check(tf, status, "TfosFeedNext", error);
}

static void *create(TF_OpKernelConstruction *from)
{
    tfos_error error;
    TF_Status *status = tf->TF_NewStatus();
    kernel *self = calloc(1, sizeof *self);
    tfos_status ours = TFOS_OK;
    if (self == NULL) {
        ours = tfos__fail_memory(&error, sizeof *self);
    } else {
        pthread_mutex_init(&self->lock, NULL);
        ours = read_attributes(self, from, status, &error);
    }
    if (ours != TFOS_OK) {
        destroy(self);
        self = NULL;
        tf->TF_SetStatus(status, code_of(ours), error.message);
        tf->TF_OpKernelConstruction_Failure(from, status);
    }
    tf->TF_DeleteStatus(status);
    return self;
}

/* ---- registering ---- */

static void infer_shapes(TF_ShapeInferenceContext *context, TF_Status *status)
{
    tf->TF_ShapeInferenceContextSetUnknownShape(context, status);
}

void tfos__ops_add_feed(const tfos__tensorflow *with, TF_Status *status)
{
    static const char *const attributes[] = {"queue: string",
                                             "schema: string",
                                             "batch_size: int >= 1",
                                             "drop_remainder: bool = false",
                                             "split_epochs: bool = false",
                                             "epoch: int = -1",
                                             "T: list(type) >= 1"};
    tf = with;
    TF_OpDefinitionBuilder *op = tf->TF_NewOpDefinitionBuilder("TfosFeedNext");
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        tf->TF_OpDefinitionBuilderAddAttr(op, attributes[i]);
    }
    tf->TF_OpDefinitionBuilderAddOutput(op, "goes_on: bool");
    tf->TF_OpDefinitionBuilderAddOutput(op, "has_rows: bool");
    tf->TF_OpDefinitionBuilderAddOutput(op, "components: T");
    tf->TF_OpDefinitionBuilderSetIsStateful(op, true);
    tf->TF_OpDefinitionBuilderSetShapeInferenceFunction(op, infer_shapes);
    tf->TF_RegisterOpDefinition(op, status);
    if (tf->TF_GetCode(status) != 0) {
        return;
    }
    TF_KernelBuilder *builder = tf->TF_NewKernelBuilder("TfosFeedNext", "CPU", create, compute, destroy);
    tf->TF_RegisterKernelBuilder("TfosFeedNext", builder, status);
}

/* TfosRecordsOpen and TfosRecordsNext: the source of a tf.data.Dataset over TFRecord files.
 *
 * TensorFlow shares a kernel among the iterators of a dataset, so a kernel cannot be the place of what one iteration
 * needs. That is a reader, opened by the first op once for every iteration. What the op gives is a scalar, the number
 * of the reader, in memory that is ours: the iterator keeps that tensor for as long as it lives, and when TensorFlow
 * gives the memory back the reader is closed, its threads end and its files are closed. An iterator that is dropped in
 * the middle of the data is no special case.
 *
 *     Open ──► tensor ──► Next, Next, Next …        one iteration
 *                │ the memory is given back
 *                └──► the reader is closed
 *
 * Readers are found by their number and not by an address in the tensor: should somebody copy the tensor and keep the
 * copy alone, there is an error instead of a crash. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensorflow/ops_parsed.h"

enum { OPEN_FILES, OPEN_SEED };
enum { NEXT_READER, NEXT_FILLERS };

static const tfos__tensorflow *tf;

/* ---- readers of this process ---- */

enum { TENSOR_ALIGN = 64 }; /* memory that is aligned less is copied by TensorFlow */

/* One iteration. Begins with what its tensor shows. */
typedef struct iteration {
    int64_t number;
    int references;         /* of the tensor, and of calls */
    tfos_reader *reader;    /* NULL at the end of the data */
    atomic_uint interrupts; /* SIGINTs before the call that is going on */
    struct iteration *next;
} iteration;

static pthread_mutex_t iterations_lock = PTHREAD_MUTEX_INITIALIZER;
static iteration *iterations;
static int64_t iterations_begun;

static bool is_interrupted(void *context)
{
    iteration *of = context;
    return tfos__ops_interrupts() != atomic_load(&of->interrupts);
}

static tfos_status begin_iteration(iteration **out, tfos_error *error)
{
    size_t bytes = (sizeof **out + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    iteration *begun = aligned_alloc(TENSOR_ALIGN, bytes);
    if (begun == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    memset(begun, 0, bytes);
    begun->references = 1;
    atomic_init(&begun->interrupts, tfos__ops_interrupts());
    pthread_mutex_lock(&iterations_lock);
    begun->number = ++iterations_begun;
    begun->next = iterations;
    iterations = begun;
    pthread_mutex_unlock(&iterations_lock);
    *out = begun;
    return TFOS_OK;
}

/* NULL if there is none of this number. */
static iteration *take_iteration(int64_t number)
{
    pthread_mutex_lock(&iterations_lock);
    iteration *found = iterations;
    while (found != NULL && found->number != number) {
        found = found->next;
    }
    if (found != NULL) {
        found->references++;
    }
    pthread_mutex_unlock(&iterations_lock);
    return found;
}

static void give_iteration(iteration *of)
{
    pthread_mutex_lock(&iterations_lock);
    bool last = --of->references == 0;
    for (iteration **at = &iterations; last && *at != NULL; at = &(*at)->next) {
        if (*at == of) {
            *at = of->next;
            break;
        }
    }
    pthread_mutex_unlock(&iterations_lock);
    if (last) {
        tfos_reader_close(of->reader);
        free(of);
    }
}

static void give_tensor(void *data, size_t bytes, void *context)
{
    (void)data;
    (void)bytes;
    give_iteration(context);
}

/* ---- what both ops need ---- */

static int code_of(tfos_status status)
{
    switch (status) {
    case TFOS_END:
        return TFOS__TF_OUT_OF_RANGE;
    case TFOS_CANCELLED:
        return TFOS__TF_CANCELLED;
    case TFOS_CORRUPT:
    case TFOS_TRUNCATED:
        return TFOS__TF_DATA_LOSS;
    case TFOS_INVALID:
    case TFOS_MISMATCH:
    case TFOS_RANGE:
    case TFOS_ENCODING:
        return TFOS__TF_INVALID_ARGUMENT;
    case TFOS_NO_MEMORY:
    case TFOS_LIMIT:
        return TFOS__TF_RESOURCE_EXHAUSTED;
    case TFOS_NOT_FOUND:
        return TFOS__TF_NOT_FOUND;
    case TFOS_PERMISSION:
        return TFOS__TF_PERMISSION_DENIED;
    case TFOS_UNSUPPORTED:
        return TFOS__TF_UNIMPLEMENTED;
    default:
        return TFOS__TF_INTERNAL;
    }
}

static void fail_call(TF_OpKernelContext *context, TF_Status *status, tfos_status ours, const tfos_error *error)
{
    char text[TFOS_ERROR_MESSAGE_BYTES + 256];
    const char *advice = ours == TFOS_MISMATCH
                             ? " (features say what is expected: a FixedLenFeature with a default_value for what may "
                               "be missing, a VarLenFeature or RaggedFeature for any number of values)"
                             : "";
    snprintf(text, sizeof text, "%s%s", error->message, advice);
    tf->TF_SetStatus(status, code_of(ours), text);
    tf->TF_OpKernelContext_Failure(context, status);
}

static tfos_status read_number(TF_OpKernelContext *context, int input, TF_Status *status, int64_t *out,
                               tfos_error *error)
{
    TF_Tensor *tensor = NULL;
    tf->TF_GetInput(context, input, &tensor, status);
    TFOS_TRY(tfos__tensorflow_check(tf, status, "cannot read an input", error));
    bool scalar = tf->TF_NumDims(tensor) == 0;
    if (scalar) {
        memcpy(out, tf->TF_TensorData(tensor), sizeof *out);
    }
    tf->TF_DeleteTensor(tensor);
    return scalar ? TFOS_OK : tfos__fail(error, TFOS_INVALID, "expected a scalar, found a tensor of more dimensions");
}

/* An attribute that is a list of numbers. The caller frees *out, which is not NULL. */
static tfos_status read_list(TF_OpKernelConstruction *from, const char *name, TF_Status *status, int64_t **out,
                             size_t *count, tfos_error *error)
{
    int32_t list = 0;
    int32_t total;
    *out = NULL;
    tf->TF_OpKernelConstruction_GetAttrSize(from, name, &list, &total, status);
    TFOS_TRY(tfos__tensorflow_check(tf, status, name, error));
    *count = list > 0 ? (size_t)list : 0;
    *out = calloc(*count + 1, sizeof **out);
    if (*out == NULL) {
        return tfos__fail_memory(error, *count * sizeof **out);
    }
    tf->TF_OpKernelConstruction_GetAttrInt64List(from, name, *out, (int)*count, status);
    return tfos__tensorflow_check(tf, status, name, error);
}

/* ---- TfosRecordsOpen ---- */

typedef struct opener {
    tfos_schema *schema;
    int32_t *multiples; /* one for each column */
    tfos_read_options options;
    tfos_store *store; /* the memory of iterations that have ended */
} opener;

static void opener_free(void *data)
{
    opener *self = data;
    if (self != NULL) {
        tfos_schema_free(self->schema);
        free(self->multiples);
        tfos_store_free(self->store);
        free(self);
    }
}

static tfos_status read_schema(opener *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    size_t bytes = 0;
    char *schema = tfos__ops_read_text(tf, from, "schema", &bytes, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, "TfosRecordsOpen", error);
    if (ours == TFOS_OK) {
        ours = schema == NULL ? tfos__fail_memory(error, bytes)
                              : tfos_schema_from_json(schema, bytes, &self->schema, error);
    }
    free(schema);
    return ours;
}

static tfos_status read_multiples(opener *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    int64_t *numbers = NULL;
    size_t count = 0;
    size_t columns = tfos_schema_field_count(self->schema);
    tfos_status ours = read_list(from, "multiples", status, &numbers, &count, error);
    if (ours == TFOS_OK && count != columns) {
        ours =
            tfos__fail(error, TFOS_INVALID, "expected %zu multiples, one for each column, found %zu", columns, count);
    }
    self->multiples = ours == TFOS_OK ? calloc(columns + 1, sizeof *self->multiples) : NULL;
    if (ours == TFOS_OK && self->multiples == NULL) {
        ours = tfos__fail_memory(error, columns * sizeof *self->multiples);
    }
    for (size_t i = 0; i < columns && ours == TFOS_OK; i++) {
        self->multiples[i] = (int32_t)numbers[i];
    }
    free(numbers);
    return ours;
}

static tfos_status read_choices(opener *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    size_t bytes;
    char *codec = tfos__ops_read_text(tf, from, "codec", &bytes, status);
    char *on_corrupt = tfos__ops_read_text(tf, from, "on_corrupt", &bytes, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, "TfosRecordsOpen", error);
    if (ours == TFOS_OK && (codec == NULL || on_corrupt == NULL)) {
        ours = tfos__fail_memory(error, bytes);
    }
    ours = ours == TFOS_OK ? tfos_codec_parse(codec, &self->options.codec, error) : ours;
    ours = ours == TFOS_OK ? tfos_on_corrupt_parse(on_corrupt, &self->options.on_corrupt, error) : ours;
    free(codec);
    free(on_corrupt);
    return ours;
}

static tfos_status opener_read(opener *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    int64_t threads = -1;
    int64_t shard = 0;
    int64_t shards = 0;
    tfos_read_options *options = &self->options;
    tfos_read_options_init(options, sizeof *options);
    TFOS_TRY(read_schema(self, from, status, error));
    TFOS_TRY(read_multiples(self, from, status, error));
    TFOS_TRY(read_choices(self, from, status, error));
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "batch_size", &options->batch_rows, status);
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "shuffle", &options->shuffle_rows, status);
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "threads", &threads, status);
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "shard", &shard, status);
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "shards", &shards, status);
    TFOS_TRY(tfos__tensorflow_check(tf, status, "TfosRecordsOpen", error));
    options->schema = self->schema;
    options->multiples = self->multiples;
    options->threads = (int32_t)threads;
    options->shard = (int32_t)shard;
    options->shard_count = (int32_t)shards;
    options->exact = true;
    options->interrupted = is_interrupted;
    return TFOS_OK;
}

static void *opener_create(TF_OpKernelConstruction *from)
{
    tfos_error error;
    TF_Status *status = tf->TF_NewStatus();
    opener *self = calloc(1, sizeof *self);
    tfos_status ours = self == NULL ? tfos__fail_memory(&error, sizeof *self) : opener_read(self, from, status, &error);
    ours = ours == TFOS_OK ? tfos_store_new(&self->store, &error) : ours;
    if (ours != TFOS_OK) {
        opener_free(self);
        self = NULL;
        tf->TF_SetStatus(status, code_of(ours), error.message);
        tf->TF_OpKernelConstruction_Failure(from, status);
    }
    tf->TF_DeleteStatus(status);
    return self;
}

/* The names as texts, one behind the other, each with its end. The caller frees *out, which has the pointers first. */
static tfos_status copy_names(const TF_Tensor *files, size_t count, const char ***out, tfos_error *error)
{
    const TF_TString *texts = tf->TF_TensorData(files);
    size_t bytes = (count + 1) * sizeof **out;
    for (size_t i = 0; i < count; i++) {
        bytes += tf->TF_StringGetSize(&texts[i]) + 1;
    }
    const char **names = calloc(1, bytes);
    if (names == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    char *at = (char *)(names + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t length = tf->TF_StringGetSize(&texts[i]);
        memcpy(at, tf->TF_StringGetDataPointer(&texts[i]), length);
        names[i] = at;
        at += length + 1;
    }
    *out = names;
    return TFOS_OK;
}

static tfos_status find_files(TF_OpKernelContext *context, TF_Status *status, tfos_paths **out, tfos_error *error)
{
    TF_Tensor *files = NULL;
    const char **names = NULL;
    tf->TF_GetInput(context, OPEN_FILES, &files, status);
    TFOS_TRY(tfos__tensorflow_check(tf, status, "cannot read the names of the files", error));
    size_t count = 1;
    for (int i = 0; i < tf->TF_NumDims(files); i++) {
        count *= (size_t)tf->TF_Dim(files, i);
    }
    tfos_status ours = copy_names(files, count, &names, error);
    ours = ours == TFOS_OK ? tfos_paths_expand(names, count, out, error) : ours;
    free(names);
    tf->TF_DeleteTensor(files);
    return ours;
}

static tfos_status open_reader(const opener *self, TF_OpKernelContext *context, TF_Status *status, iteration *of,
                               tfos_error *error)
{
    int64_t seed = 0;
    tfos_paths *paths = NULL;
    tfos_read_options options = self->options;
    TFOS_TRY(read_number(context, OPEN_SEED, status, &seed, error));
    TFOS_TRY(find_files(context, status, &paths, error));
    options.shuffle_seed = (uint64_t)seed;
    options.interrupted_context = of;
    options.store = self->store;
    tfos_status ours = tfos_reader_open(paths, &options, &of->reader, error);
    tfos_paths_free(paths);
    return ours;
}

static void opener_compute(void *data, TF_OpKernelContext *context)
{
    tfos_error error;
    iteration *of = NULL;
    TF_Status *status = tf->TF_NewStatus();
    tfos_status ours = begin_iteration(&of, &error);
    ours = ours == TFOS_OK ? open_reader(data, context, status, of, &error) : ours;
    if (ours == TFOS_OK) {
        TF_Tensor *tensor = tf->TF_NewTensor(TFOS__DTYPE_INT64, NULL, 0, of, sizeof of->number, give_tensor, of);
        tf->TF_SetOutput(context, 0, tensor, status);
        tf->TF_DeleteTensor(tensor);
        ours = tfos__tensorflow_check(tf, status, "TfosRecordsOpen", &error);
    } else if (of != NULL) {
        give_iteration(of);
    }
    if (ours != TFOS_OK) {
        fail_call(context, status, ours, &error);
    }
    tf->TF_DeleteStatus(status);
}

/* ---- TfosRecordsNext ---- */

typedef struct taker {
    int64_t batch_size;
    bool drop_remainder;
    size_t count;
    tfos__ops_parsed *parsed;
} taker;

static void taker_free(void *data)
{
    taker *self = data;
    if (self != NULL) {
        free(self->parsed);
        free(self);
    }
}

/* The attributes that describe the outputs: a number for each, and all dimensions one behind the other. */
enum { LIST_COLUMNS, LIST_FORMS, LIST_FILLERS, LIST_RANKS, LIST_DIMENSIONS, LIST_COUNT };
static const char *const list_names[LIST_COUNT] = {"columns", "forms", "fillers", "ranks", "dimensions"};

static tfos_status describe(taker *self, int64_t *const *lists, const size_t *counts, tfos_error *error)
{
    size_t dimension = 0;
    for (size_t i = 0; i < self->count; i++) {
        tfos__ops_parsed *parsed = &self->parsed[i];
        int64_t rank = lists[LIST_RANKS][i];
        if (lists[LIST_FORMS][i] < 0 || lists[LIST_FORMS][i] >= TFOS__OPS_FORM_COUNT || rank < 0 ||
            rank > TFOS__OPS_DIMENSIONS_MOST - 2 || dimension + (size_t)rank > counts[LIST_DIMENSIONS]) {
            return tfos__fail(error, TFOS_INVALID, "output %zu is not described as TfosRecordsNext expects it", i);
        }
        *parsed = (tfos__ops_parsed){.column = (size_t)lists[LIST_COLUMNS][i],
                                     .form = (tfos__ops_form)lists[LIST_FORMS][i],
                                     .filler = (int)lists[LIST_FILLERS][i],
                                     .inner = {.count = (int)rank},
                                     .inner_elements = 1};
        for (int d = 0; d < parsed->inner.count; d++) {
            parsed->inner.dim[d] = lists[LIST_DIMENSIONS][dimension++];
            parsed->inner_elements *= parsed->inner.dim[d];
        }
    }
    return TFOS_OK;
}

static tfos_status read_outputs(taker *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    int64_t *lists[LIST_COUNT] = {NULL};
    size_t counts[LIST_COUNT] = {0};
    tfos_status ours = TFOS_OK;
    for (int i = 0; i < LIST_COUNT && ours == TFOS_OK; i++) {
        ours = read_list(from, list_names[i], status, &lists[i], &counts[i], error);
    }
    self->count = counts[LIST_COLUMNS];
    bool agree =
        counts[LIST_FORMS] == self->count && counts[LIST_FILLERS] == self->count && counts[LIST_RANKS] == self->count;
    if (ours == TFOS_OK && !agree) {
        ours = tfos__fail(error, TFOS_INVALID, "columns, forms, fillers and ranks have one number for each output");
    }
    self->parsed = ours == TFOS_OK ? calloc(self->count + 1, sizeof *self->parsed) : NULL;
    if (ours == TFOS_OK && self->parsed == NULL) {
        ours = tfos__fail_memory(error, self->count * sizeof *self->parsed);
    }
    ours = ours == TFOS_OK ? describe(self, lists, counts, error) : ours;
    for (int i = 0; i < LIST_COUNT; i++) {
        free(lists[i]);
    }
    return ours;
}

static tfos_status taker_read(taker *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    unsigned char drop_remainder = 0;
    TFOS_TRY(read_outputs(self, from, status, error));
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "batch_size", &self->batch_size, status);
    tf->TF_OpKernelConstruction_GetAttrBool(from, "drop_remainder", &drop_remainder, status);
    self->drop_remainder = drop_remainder != 0;
    return tfos__tensorflow_check(tf, status, "TfosRecordsNext", error);
}

static void *taker_create(TF_OpKernelConstruction *from)
{
    tfos_error error;
    TF_Status *status = tf->TF_NewStatus();
    taker *self = calloc(1, sizeof *self);
    tfos_status ours = self == NULL ? tfos__fail_memory(&error, sizeof *self) : taker_read(self, from, status, &error);
    if (ours != TFOS_OK) {
        taker_free(self);
        self = NULL;
        tf->TF_SetStatus(status, code_of(ours), error.message);
        tf->TF_OpKernelConstruction_Failure(from, status);
    }
    tf->TF_DeleteStatus(status);
    return self;
}

/* The next batch of an iteration. At the end its reader is closed: what holds the tensor may live on for long. */
static tfos_status next_batch(const taker *self, iteration *of, tfos_batch **out, tfos_error *error)
{
    pthread_mutex_lock(&iterations_lock);
    tfos_reader *reader = of->reader != NULL ? tfos_reader_retain(of->reader) : NULL;
    pthread_mutex_unlock(&iterations_lock);
    if (reader == NULL) {
        return TFOS_END;
    }
    atomic_store(&of->interrupts, tfos__ops_interrupts());
    tfos_status status = tfos_reader_next(reader, out, error);
    if (status == TFOS_OK && self->drop_remainder && tfos_batch_rows(*out) < self->batch_size) {
        tfos_batch_free(*out);
        *out = NULL;
        status = tfos_reader_next(reader, out, error); /* the end, or what is wrong with the rows behind these */
    }
    if (status == TFOS_END) {
        pthread_mutex_lock(&iterations_lock);
        tfos_reader *ended = of->reader;
        of->reader = NULL;
        pthread_mutex_unlock(&iterations_lock);
        tfos_reader_close(ended);
    }
    tfos_reader_close(reader);
    return status;
}

static tfos_status write_one(const tfos__ops_parsed *parsed, tfos__ops_outputs *out, tfos_batch *batch,
                             tfos_error *error)
{
    TF_Tensor *filler = NULL;
    if (parsed->column >= tfos_schema_field_count(tfos_batch_schema(batch))) {
        return tfos__fail(error, TFOS_INVALID, "TfosRecordsNext wants column %zu, which is not read", parsed->column);
    }
    if (parsed->filler < 0) {
        return tfos__ops_write_parsed(out, batch, parsed, NULL, error);
    }
    tf->TF_GetInput(out->context, NEXT_FILLERS + parsed->filler, &filler, out->status);
    TFOS_TRY(tfos__tensorflow_check(tf, out->status, "cannot read a default_value", error));
    tfos_status status = tfos__ops_write_parsed(out, batch, parsed, tf->TF_TensorData(filler), error);
    tf->TF_DeleteTensor(filler);
    return status;
}

static tfos_status take_next(const taker *self, tfos__ops_outputs *out, iteration *of, tfos_error *error)
{
    tfos_batch *batch = NULL;
    tfos_status status = next_batch(self, of, &batch, error);
    for (size_t i = 0; i < self->count && status == TFOS_OK; i++) {
        status = write_one(&self->parsed[i], out, batch, error);
    }
    tfos_batch_free(batch);
    return status;
}

static tfos_status take(const taker *self, tfos__ops_outputs *out, tfos_error *error)
{
    int64_t number = 0;
    TFOS_TRY(read_number(out->context, NEXT_READER, out->status, &number, error));
    iteration *of = take_iteration(number);
    if (of == NULL) {
        return tfos__fail(error, TFOS_INVALID,
                          "there is no reader %lld in this process: the parts of a dataset of records cannot be run "
                          "apart from each other",
                          (long long)number);
    }
    tfos_status status = take_next(self, out, of, error);
    give_iteration(of);
    return status;
}

static void taker_compute(void *data, TF_OpKernelContext *context)
{
    tfos_error error = {.message = "there are no more records"};
    tfos__ops_outputs out = {.tf = tf, .context = context, .status = tf->TF_NewStatus()};
    tfos_status status = take(data, &out, &error);
    if (status != TFOS_OK) {
        fail_call(context, out.status, status, &error);
    }
    tf->TF_DeleteStatus(out.status);
}

/* ---- registering ---- */

static void infer_scalar(TF_ShapeInferenceContext *context, TF_Status *status)
{
    TF_ShapeHandle *scalar = tf->TF_ShapeInferenceContextScalar(context);
    tf->TF_ShapeInferenceContextSetOutput(context, 0, scalar, status);
    tf->TF_DeleteShapeHandle(scalar);
}

static void infer_nothing(TF_ShapeInferenceContext *context, TF_Status *status)
{
    tf->TF_ShapeInferenceContextSetUnknownShape(context, status);
}

static TF_OpDefinitionBuilder *define(const char *name, const char *const *attributes)
{
    TF_OpDefinitionBuilder *op = tf->TF_NewOpDefinitionBuilder(name);
    for (; *attributes != NULL; attributes++) {
        tf->TF_OpDefinitionBuilderAddAttr(op, *attributes);
    }
    tf->TF_OpDefinitionBuilderSetIsStateful(op, true);
    return op;
}

static void add_open(TF_Status *status)
{
    static const char *const attributes[] = {"schema: string",
                                             "multiples: list(int)",
                                             "batch_size: int >= 1",
                                             "codec: string = 'auto'",
                                             "on_corrupt: string = 'error'",
                                             "threads: int = -1",
                                             "shuffle: int = 0",
                                             "shard: int = 0",
                                             "shards: int = 0",
                                             NULL};
    TF_OpDefinitionBuilder *op = define("TfosRecordsOpen", attributes);
    tf->TF_OpDefinitionBuilderAddInput(op, "files: string");
    tf->TF_OpDefinitionBuilderAddInput(op, "seed: int64");
    tf->TF_OpDefinitionBuilderAddOutput(op, "reader: int64");
    tf->TF_OpDefinitionBuilderSetShapeInferenceFunction(op, infer_scalar);
    tf->TF_RegisterOpDefinition(op, status);
    if (tf->TF_GetCode(status) == 0) {
        TF_KernelBuilder *builder =
            tf->TF_NewKernelBuilder("TfosRecordsOpen", "CPU", opener_create, opener_compute, opener_free);
        tf->TF_RegisterKernelBuilder("TfosRecordsOpen", builder, status);
    }
}

static void add_next(TF_Status *status)
{
    static const char *const attributes[] = {"batch_size: int >= 1",  "drop_remainder: bool = false",
                                             "columns: list(int)",    "forms: list(int)",
                                             "fillers: list(int)",    "ranks: list(int)",
                                             "dimensions: list(int)", "F: list(type) >= 0",
                                             "T: list(type) >= 1",    NULL};
    TF_OpDefinitionBuilder *op = define("TfosRecordsNext", attributes);
    tf->TF_OpDefinitionBuilderAddInput(op, "reader: int64");
    tf->TF_OpDefinitionBuilderAddInput(op, "filler_values: F");
    tf->TF_OpDefinitionBuilderAddOutput(op, "components: T");
    tf->TF_OpDefinitionBuilderSetShapeInferenceFunction(op, infer_nothing);
    tf->TF_RegisterOpDefinition(op, status);
    if (tf->TF_GetCode(status) == 0) {
        TF_KernelBuilder *builder =
            tf->TF_NewKernelBuilder("TfosRecordsNext", "CPU", taker_create, taker_compute, taker_free);
        tf->TF_RegisterKernelBuilder("TfosRecordsNext", builder, status);
    }
}

void tfos__ops_add_records(const tfos__tensorflow *with, TF_Status *status)
{
    tf = with;
    add_open(status);
    if (tf->TF_GetCode(status) == 0) {
        add_next(status);
    }
}

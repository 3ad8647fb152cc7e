/* The JNI side of org.tfos.Native: tables of records, their readers and writers. */
#include "jni_shell.h"

/* ---- tables ---- */

static tfos_table *table_at(jlong address)
{
    return (tfos_table *)(uintptr_t)address;
}

NATIVE(jlong, tableNew, jbyteArray options)
{
    tfos_error error = {0};
    tfos_table *table = NULL;
    size_t count = 0;
    char *text = tfos__jni_copy_bytes(env, class, options, &count);
    if (text != NULL && tfos_table_new(text, count, &table, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
    }
    free(text);
    return (jlong)(uintptr_t)table;
}

NATIVE(jbyteArray, tableEnding, jlong table)
{
    (void)class;
    return tfos__jni_new_bytes(env, tfos_table_ending(table_at(table)));
}

NATIVE(jboolean, tableSplits, jlong table, jbyteArray path)
{
    size_t count;
    char *text = tfos__jni_copy_bytes(env, class, path, &count);
    bool splits = text != NULL && tfos_table_splits(table_at(table), text);
    free(text);
    return splits;
}

NATIVE(jboolean, tableHolds, jbyteArray path)
{
    size_t count;
    char *text = tfos__jni_copy_bytes(env, class, path, &count);
    bool holds = text != NULL && tfos_table_holds(text);
    free(text);
    return holds;
}

NATIVE(void, tableCheck, jlong table, jbyteArray schema)
{
    tfos_error error = {0};
    tfos_schema *columns = NULL;
    size_t count = 0;
    char *text = tfos__jni_copy_bytes(env, class, schema, &count);
    if (text != NULL &&
        tfos_schema_from_spark(text, count, tfos_table_record(table_at(table)), &columns, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
    }
    tfos_schema_free(columns);
    free(text);
}

NATIVE(jbyteArray, tableRecord, jlong table)
{
    (void)class;
    return tfos__jni_new_bytes(env, tfos_record_kind_name(tfos_table_record(table_at(table))));
}

NATIVE(jboolean, tableSkips, jlong table)
{
    (void)env;
    (void)class;
    return tfos_table_skips(table_at(table));
}

NATIVE(jlong, tableSample, jlong table)
{
    (void)env;
    (void)class;
    return tfos_table_sample(table_at(table));
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; texts != NULL && i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

/* Texts of an array, for free_texts. NULL: an exception is pending. */
static char **copy_texts(JNIEnv *env, jclass class, jobjectArray array, size_t *count)
{
    size_t ignored;
    *count = (size_t)(*env)->GetArrayLength(env, array);
    char **texts = calloc(*count + 1, sizeof *texts);
    if (texts == NULL) {
        tfos__jni_throw_memory(env, class);
    }
    for (size_t i = 0; texts != NULL && i < *count; i++) {
        jbyteArray bytes = (*env)->GetObjectArrayElement(env, array, (jsize)i);
        texts[i] = tfos__jni_copy_bytes(env, class, bytes, &ignored);
        (*env)->DeleteLocalRef(env, bytes);
        if (texts[i] == NULL) {
            free_texts(texts, i);
            return NULL;
        }
    }
    return texts;
}

/* What was made, as bytes; or the exception that the failure is. */
static jbyteArray give_text(JNIEnv *env, jclass class, tfos_status status, char *text, const tfos_error *error)
{
    if (status != TFOS_OK) {
        tfos__jni_throw(env, class, error);
        return NULL;
    }
    jbyteArray bytes = tfos__jni_new_bytes(env, text);
    tfos_string_free(text);
    return bytes;
}

NATIVE(jbyteArray, tableSurvey, jlong table, jobjectArray paths, jlongArray ranges, jobject files)
{
    tfos_error error = {0};
    tfos__jni_files served = {0};
    char *text = NULL;
    size_t count = 0;
    jbyteArray out = NULL;
    char **names = copy_texts(env, class, paths, &count);
    if (names == NULL) {
        return NULL;
    }
    tfos_file_part *parts = calloc(count + 1, sizeof *parts);
    jlong *numbers = (*env)->GetLongArrayElements(env, ranges, NULL);
    if (parts == NULL || numbers == NULL) {
        tfos__jni_throw_memory(env, class);
    } else if (tfos__jni_files_init(&served, env, class, files)) {
        for (size_t i = 0; i < count; i++) {
            const jlong *range = numbers + i * 3;
            parts[i] = (tfos_file_part){.path = names[i], .bytes = range[0], .start = range[1], .end = range[2]};
        }
        tfos_status status = tfos_table_survey(table_at(table), parts, count, &served.system,
                                               tfos__jni_files_interrupted, &served, &text, &error);
        out = give_text(env, class, status, text, &error);
    }
    tfos__jni_files_reset(&served, env);
    if (numbers != NULL) {
        (*env)->ReleaseLongArrayElements(env, ranges, numbers, JNI_ABORT);
    }
    free(parts);
    free_texts(names, count);
    return out;
}

NATIVE(jbyteArray, tableSchema, jlong table, jobjectArray surveys)
{
    tfos_error error = {0};
    char *text = NULL;
    size_t count = 0;
    jbyteArray out = NULL;
    char **found = copy_texts(env, class, surveys, &count);
    if (found != NULL) {
        tfos_status status = tfos_table_schema(table_at(table), (const char *const *)found, count, &text, &error);
        out = give_text(env, class, status, text, &error);
    }
    free_texts(found, count);
    return out;
}

NATIVE(void, tableFree, jlong table)
{
    (void)env;
    (void)class;
    tfos_table_free(table_at(table));
}

/* ---- reading ---- */

typedef struct reader {
    tfos__jni_files files;
    tfos_reader *reader;
    tfos_batch *batch; /* the last one that was handed out */
} reader;

static reader *reader_at(jlong address)
{
    return (reader *)(uintptr_t)address;
}

static void free_reader(JNIEnv *env, reader *self)
{
    tfos_batch_free(self->batch);
    tfos_reader_close(self->reader);
    tfos__jni_files_reset(&self->files, env);
    free(self);
}

NATIVE(jlong, readerOpen, jlong table, jbyteArray path, jlong bytes, jlong start, jlong end, jbyteArray schema,
       jobject files)
{
    tfos_error error = {0};
    size_t ignored;
    size_t schema_bytes = 0;
    reader *self = calloc(1, sizeof *self);
    char *name = self != NULL ? tfos__jni_copy_bytes(env, class, path, &ignored) : NULL;
    char *columns = name != NULL ? tfos__jni_copy_bytes(env, class, schema, &schema_bytes) : NULL;
    bool opened = false;
    if (self == NULL) {
        tfos__jni_throw_memory(env, class);
    } else if (columns != NULL && tfos__jni_files_init(&self->files, env, class, files)) {
        const tfos_file_part part = {.path = name, .bytes = bytes, .start = start, .end = end};
        opened = tfos_table_read(table_at(table), &part, columns, schema_bytes, &self->files.system,
                                 tfos__jni_files_interrupted, &self->files, &self->reader, &error) == TFOS_OK;
        if (!opened) {
            tfos__jni_throw(env, class, &error);
        }
    }
    free(name);
    free(columns);
    if (!opened && self != NULL) {
        jthrowable pending = (*env)->ExceptionOccurred(env);
        (*env)->ExceptionClear(env);
        free_reader(env, self);
        (*env)->Throw(env, pending);
        return 0;
    }
    return (jlong)(uintptr_t)self;
}

/* Says where the vectors of a batch are: for each level of each column, nulls, validity, offsets and data. */
static void tell_vectors(const tfos_batch *batch, jlong *words, size_t most)
{
    size_t at = 0;
    for (size_t i = 0; i < tfos_schema_field_count(tfos_batch_schema(batch)); i++) {
        for (const tfos_vector *level = tfos_batch_column(batch, i); level != NULL && at + 4 <= most;
             level = level->child) {
            words[at++] = level->null_count;
            words[at++] = (jlong)(uintptr_t)level->validity;
            words[at++] = (jlong)(uintptr_t)level->offsets;
            words[at++] = (jlong)(uintptr_t)level->data;
        }
    }
}

NATIVE(jlong, readerNext, jlong address, jlongArray words)
{
    tfos_error error = {0};
    reader *self = reader_at(address);
    tfos_batch_free(self->batch);
    self->batch = NULL;
    tfos_status status = tfos_reader_next(self->reader, &self->batch, &error);
    if (status != TFOS_OK) {
        if (status != TFOS_END) {
            tfos__jni_throw(env, class, &error);
        }
        return 0;
    }
    jsize most = (*env)->GetArrayLength(env, words);
    jlong *all = (*env)->GetLongArrayElements(env, words, NULL);
    if (all == NULL) {
        tfos__jni_throw_memory(env, class);
        return 0;
    }
    tell_vectors(self->batch, all, (size_t)most);
    (*env)->ReleaseLongArrayElements(env, words, all, 0);
    return tfos_batch_rows(self->batch);
}

NATIVE(jlongArray, readerProgress, jlong address)
{
    (void)class;
    tfos_progress progress;
    tfos_reader_progress(reader_at(address)->reader, &progress);
    const jlong numbers[] = {progress.done_bytes, progress.records, progress.skipped_records, progress.skipped_bytes};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    jlongArray out = (*env)->NewLongArray(env, COUNT);
    if (out != NULL) {
        (*env)->SetLongArrayRegion(env, out, 0, COUNT, numbers);
    }
    return out;
}

NATIVE(jobject, readerMemory, jlong address, jlong begin, jlong bytes)
{
    (void)class;
    (void)address;
    return (*env)->NewDirectByteBuffer(env, (void *)(uintptr_t)begin, bytes);
}

NATIVE(void, readerClose, jlong address)
{
    (void)class;
    free_reader(env, reader_at(address));
}

/* ---- writing ---- */

typedef struct output {
    tfos__jni_files files;
    tfos_writer *writer; /* NULL: it has ended */
} output;

static output *output_at(jlong address)
{
    return (output *)(uintptr_t)address;
}

NATIVE(jlong, outputOpen, jlong table, jbyteArray path, jobject files)
{
    tfos_error error = {0};
    size_t ignored;
    output *self = calloc(1, sizeof *self);
    char *name = self != NULL ? tfos__jni_copy_bytes(env, class, path, &ignored) : NULL;
    bool opened = false;
    if (self == NULL) {
        tfos__jni_throw_memory(env, class);
    } else if (name != NULL && tfos__jni_files_init(&self->files, env, class, files)) {
        opened = tfos_table_write(table_at(table), name, &self->files.system, &self->writer, &error) == TFOS_OK;
        if (!opened) {
            tfos__jni_throw(env, class, &error);
        }
    }
    free(name);
    if (!opened && self != NULL) {
        jthrowable pending = (*env)->ExceptionOccurred(env);
        (*env)->ExceptionClear(env);
        tfos__jni_files_reset(&self->files, env);
        free(self);
        (*env)->Throw(env, pending);
        return 0;
    }
    return (jlong)(uintptr_t)self;
}

NATIVE(void, outputRows, jlong address, jlong rows)
{
    tfos_error error = {0};
    tfos_batch *batch = NULL;
    tfos_status status = tfos_spark_rows_take(tfos__jni_rows_at(rows)->rows, &batch, &error);
    if (status == TFOS_OK && batch != NULL) {
        status = tfos_writer_write_batch(output_at(address)->writer, batch, &error);
        tfos_batch_free(batch);
    }
    if (status != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
    }
}

NATIVE(void, outputRecord, jlong address, jbyteArray record, jint offset, jint count)
{
    tfos_error error = {0};
    jbyte *bytes = malloc((size_t)count + 1); /* of an array that may be much larger */
    if (bytes == NULL) {
        tfos__jni_throw_memory(env, class);
        return;
    }
    (*env)->GetByteArrayRegion(env, record, offset, count, bytes);
    if ((*env)->ExceptionCheck(env)) {
        free(bytes);
        return;
    }
    tfos_status status = tfos_writer_write_record(output_at(address)->writer, bytes, (size_t)count, &error);
    free(bytes);
    if (status != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
    }
}

NATIVE(void, outputFinish, jlong address)
{
    tfos_error error = {0};
    output *self = output_at(address);
    tfos_writer *writer = self->writer;
    self->writer = NULL;
    if (tfos_writer_close(writer, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
    }
}

NATIVE(void, outputFree, jlong address)
{
    (void)class;
    output *self = output_at(address);
    tfos_writer_abort(self->writer);
    tfos__jni_files_reset(&self->files, env);
    free(self);
}

/* The JNI side of org.tfos.Native: rows and vectors of Spark, and rows for Spark. */
#include "jni_shell.h"

/* ---- rows of Spark ---- */

NATIVE(void, rowsFree, jlong address)
{
    (void)env;
    (void)class;
    tfos__jni_rows *self = tfos__jni_rows_at(address);
    tfos_spark_rows_free(self->rows);
    free(self->block);
    free(self->vectors);
    free(self);
}

/* Connects the vectors of lists with what is in them. False: no memory. */
static bool make_vectors(tfos__jni_rows *self)
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
    char *text = tfos__jni_copy_bytes(env, class, description, &count);
    tfos__jni_rows *self = text != NULL ? calloc(1, sizeof *self) : NULL;
    if (text != NULL && self == NULL) {
        tfos__jni_throw_memory(env, class);
    }
    if (self != NULL && tfos_spark_rows_new(text, count, &self->rows, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
        free(self);
        self = NULL;
    }
    if (self != NULL && !make_vectors(self)) {
        tfos__jni_throw_memory(env, class);
        tfos_spark_rows_free(self->rows);
        free(self);
        self = NULL;
    }
    free(text);
    return (jlong)(uintptr_t)self;
}

NATIVE(jlong, rowsBlock, jlong address, jlong bytes)
{
    tfos__jni_rows *self = tfos__jni_rows_at(address);
    void *block = malloc((size_t)bytes);
    if (block == NULL) {
        tfos__jni_throw_memory(env, class);
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
    if (tfos_schema_to_json(tfos_spark_rows_schema(tfos__jni_rows_at(address)->rows), &text, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
        return NULL;
    }
    jbyteArray bytes = tfos__jni_new_bytes(env, text);
    tfos_string_free(text);
    return bytes;
}

NATIVE(jlong, rowsAppend, jlong address, jlong block, jlong bytes)
{
    tfos_error error = {0};
    size_t used = 0;
    const void *from = (const void *)(uintptr_t)block;
    if (tfos_spark_rows_append(tfos__jni_rows_at(address)->rows, from, (size_t)bytes, &used, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
    }
    return (jlong)used;
}

NATIVE(void, rowsCheck, jlong address, jlong head)
{
    tfos_error error = {0};
    if (tfos_spark_rows_check(tfos__jni_rows_at(address)->rows, (const void *)(uintptr_t)head, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
    }
}

NATIVE(void, rowsRefuse, jlong address, jint column, jlong bytes)
{
    tfos_error error = {0};
    if (tfos_spark_rows_refuse(tfos__jni_rows_at(address)->rows, (size_t)column, bytes, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
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
    const tfos__jni_rows *self = tfos__jni_rows_at(address);
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
    tfos__jni_rows *self = tfos__jni_rows_at(address);
    if ((size_t)(*env)->GetArrayLength(env, words) != self->levels * 4) {
        error.status = TFOS_INVALID;
        strncpy(error.message, "the words are not those of the vectors", sizeof error.message - 1);
        tfos__jni_throw(env, class, &error);
        return 0;
    }
    jlong *all = (*env)->GetLongArrayElements(env, words, NULL);
    if (all == NULL) {
        tfos__jni_throw_memory(env, class);
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
        tfos__jni_throw(env, class, &error);
    }
    return used;
}

NATIVE(void, rowsSkip, jlong address, jlong count)
{
    (void)env;
    (void)class;
    tfos_spark_rows_skip(tfos__jni_rows_at(address)->rows, count);
}

NATIVE(jlong, rowsCount, jlong address)
{
    (void)env;
    (void)class;
    return tfos_spark_rows_count(tfos__jni_rows_at(address)->rows);
}

NATIVE(jboolean, rowsFull, jlong address)
{
    (void)env;
    (void)class;
    return tfos_spark_rows_full(tfos__jni_rows_at(address)->rows);
}

/* ---- rows for Spark ---- */

NATIVE(jlong, writerNew, jbyteArray schema)
{
    tfos_error error = {0};
    size_t count = 0;
    char *text = tfos__jni_copy_bytes(env, class, schema, &count);
    tfos__jni_writer *self = text != NULL ? calloc(1, sizeof *self) : NULL;
    if (text != NULL && self == NULL) {
        tfos__jni_throw_memory(env, class);
    }
    if (self != NULL && tfos_spark_writer_new(text, count, &self->writer, &error) != TFOS_OK) {
        tfos__jni_throw(env, class, &error);
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
    return (jlong)(uintptr_t)tfos__jni_writer_at(address)->block;
}

NATIVE(jlong, writerBytes, jlong address)
{
    (void)env;
    (void)class;
    return (jlong)tfos__jni_writer_at(address)->bytes;
}

NATIVE(void, writerFree, jlong address)
{
    (void)env;
    (void)class;
    tfos_spark_writer_free(tfos__jni_writer_at(address)->writer);
    free(tfos__jni_writer_at(address));
}

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

/* ---- texts and failures ---- */

/* Texts cross as bytes, because the UTF-8 of JNI is not that of the rest of the world. NULL: an exception is pending. */
static jbyteArray new_bytes(JNIEnv *env, const char *text)
{
    jsize count = (jsize)strlen(text);
    jbyteArray bytes = (*env)->NewByteArray(env, count);
    if (bytes != NULL) {
        (*env)->SetByteArrayRegion(env, bytes, 0, count, (const jbyte *)text);
    }
    return bytes;
}

/* A copy of the bytes with a NUL behind them, for the caller to free. NULL: an exception is pending. */
static char *copy_bytes(JNIEnv *env, jclass class, jbyteArray bytes, size_t *count);

/* Makes the exception pending that this failure is. */
static void throw(JNIEnv *env, jclass class, const tfos_error *error)
{
    jmethodID method = (*env)->GetStaticMethodID(env, class, "fail", "(I[B)V");
    jbyteArray message = method != NULL ? new_bytes(env, error->message) : NULL;
    if (message != NULL) {
        (*env)->CallStaticVoidMethod(env, class, method, (jint)error->status, message);
    }
}

static void throw_memory(JNIEnv *env, jclass class)
{
    throw(env, class, &(tfos_error){.status = TFOS_NO_MEMORY, .message = "no memory for what Java has passed"});
}

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
    free(self);
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
        throw(env, class, &error);
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
        throw(env, class, &error);
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
        throw(env, class, &error);
    }
    return (jlong)used;
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

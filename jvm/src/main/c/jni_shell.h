/* The JNI side of org.tfos.Native: what its files share. Each converts arguments, calls libtfos, translates what comes
 * back, and does nothing else.
 *
 *   jni_shell.c      the library, texts and failures
 *   jni_rows.c       Spark's rows and vectors in, rows for Spark out
 *   jni_feed.c       feeding
 *   jni_files.c      files that Java serves
 *   jni_records.c    reading and writing records
 *   jni_model.c      SavedModels
 *   jni_driver.c     drivers of clusters, plans of trainers */
#ifndef TFOS_JNI_SHELL_H
#define TFOS_JNI_SHELL_H

#include <jni.h>
#include <stdlib.h>
#include <string.h>

#include "tfos.h"

#define NATIVE(result, name, ...)                                                                                      \
    JNIEXPORT result JNICALL Java_org_tfos_Native_##name(JNIEnv *env, jclass class __VA_OPT__(, ) __VA_ARGS__);        \
    JNIEXPORT result JNICALL Java_org_tfos_Native_##name(JNIEnv *env, jclass class __VA_OPT__(, ) __VA_ARGS__)

/* ---- jni_shell.c ---- */

/* Texts cross as bytes, because the UTF-8 of JNI is not that of the rest of the world. NULL: an exception is pending.
 */
jbyteArray tfos__jni_new_bytes(JNIEnv *env, const char *text);

/* A copy of the bytes with a NUL behind them, for the caller to free. NULL: an exception is pending. */
char *tfos__jni_copy_bytes(JNIEnv *env, jclass class, jbyteArray bytes, size_t *count);

/* Makes the exception pending that this failure is. */
void tfos__jni_throw(JNIEnv *env, jclass class, const tfos_error *error);
void tfos__jni_throw_memory(JNIEnv *env, jclass class);

/* What a method of Java's has thrown, which is not pending any more, as the library knows errors. */
tfos_status tfos__jni_describe(JNIEnv *env, jclass class, jthrowable thrown, tfos_error *error);

/* The environment of the thread that this is, which may be one of the library's. NULL: the JVM does not take it. */
JNIEnv *tfos__jni_env(void);

/* ---- jni_rows.c ---- */

typedef struct tfos__jni_rows {
    tfos_spark_rows *rows;
    void *block;
    size_t columns;
    size_t levels;              /* of all columns; 0: they cannot come in vectors */
    tfos_spark_vector *vectors; /* the columns, then what is in the lists of one after the other */
} tfos__jni_rows;

static inline tfos__jni_rows *tfos__jni_rows_at(jlong address)
{
    return (tfos__jni_rows *)(uintptr_t)address;
}

typedef struct tfos__jni_writer {
    tfos_spark_writer *writer;
    const void *block; /* of the rows that were written last */
    size_t bytes;
} tfos__jni_writer;

static inline tfos__jni_writer *tfos__jni_writer_at(jlong address)
{
    return (tfos__jni_writer *)(uintptr_t)address;
}

/* ---- jni_files.c ---- */

/* Files that an org.tfos.ServedFiles serves. */
typedef struct tfos__jni_files {
    tfos_file_system system;
    jclass native_class; /* org.tfos.Native */
    jobject files;       /* NULL: none are served */
    jmethodID open, create, interrupted;
    jmethodID size, read, close;
    jmethodID write, finish, abandon;
} tfos__jni_files;

/* False: an exception is pending. */
bool tfos__jni_files_init(tfos__jni_files *self, JNIEnv *env, jclass class, jobject files);
void tfos__jni_files_reset(tfos__jni_files *self, JNIEnv *env);

/* Whether whoever reads is to stop; for tfos_read_options. The context is the files. */
bool tfos__jni_files_interrupted(void *self);

#endif

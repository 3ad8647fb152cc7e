/* The JNI side of org.tfos.Native: files that an org.tfos.ServedFiles serves, for readers and writers of the library.
 *
 * A file is a global reference to an object of Java's. The library may call from a thread of its own. */
#include <stdio.h>

#include "jni_shell.h"

enum { MOST_LOCALS = 16, MOST_BYTES = 1 << 30 };

static jmethodID find(JNIEnv *env, const char *type, const char *name, const char *signature)
{
    jclass found = (*env)->ExceptionCheck(env) ? NULL : (*env)->FindClass(env, type);
    return found != NULL ? (*env)->GetMethodID(env, found, name, signature) : NULL;
}

/* ---- calls ---- */

/* Enters Java: what is made there is let go by leave. NULL: it cannot be entered, and `error` says so. */
static JNIEnv *enter(tfos_error *error)
{
    JNIEnv *env = tfos__jni_env();
    if (env != NULL && (*env)->PushLocalFrame(env, MOST_LOCALS) == 0) {
        return env;
    }
    if (env != NULL) {
        (*env)->ExceptionClear(env);
    }
    if (error != NULL) {
        *error = (tfos_error){.status = TFOS_NO_MEMORY, .message = "the JVM has no memory for a call of a file"};
    }
    return NULL;
}

/* What the call has thrown, if anything, becomes the error. */
static tfos_status leave(const tfos__jni_files *self, JNIEnv *env, tfos_error *error)
{
    tfos_error ignored;
    tfos_status status = TFOS_OK;
    jthrowable thrown = (*env)->ExceptionOccurred(env);
    if (thrown != NULL) {
        (*env)->ExceptionClear(env);
        status = tfos__jni_describe(env, self->native_class, thrown, error != NULL ? error : &ignored);
    }
    (*env)->PopLocalFrame(env, NULL);
    return status;
}

static jstring text_of(const tfos__jni_files *self, JNIEnv *env, const char *path)
{
    jmethodID method = (*env)->GetStaticMethodID(env, self->native_class, "textOf", "([B)Ljava/lang/String;");
    jbyteArray bytes = method != NULL ? tfos__jni_new_bytes(env, path) : NULL;
    return bytes != NULL ? (*env)->CallStaticObjectMethod(env, self->native_class, method, bytes) : NULL;
}

/* Whoever serves files is not ours. */
static tfos_status fail_answer(const char *path, const char *what, tfos_error *error)
{
    if (error != NULL) {
        *error = (tfos_error){.status = TFOS_INVALID, .fault = TFOS_FAULT_FINAL};
        snprintf(error->message, sizeof error->message, "%s: whoever serves it has returned %s", path, what);
    }
    return TFOS_INVALID;
}

static tfos_status open_file(void *context, const char *path, void **file, int64_t *bytes, tfos_error *error)
{
    tfos__jni_files *self = context;
    JNIEnv *env = enter(error);
    jobject opened = NULL;
    if (env == NULL) {
        return TFOS_NO_MEMORY;
    }
    int64_t size = 0;
    jstring name = text_of(self, env, path);
    jobject local = name != NULL ? (*env)->CallObjectMethod(env, self->files, self->open, name) : NULL;
    if (local != NULL && !(*env)->ExceptionCheck(env)) {
        size = (*env)->CallLongMethod(env, local, self->size);
        opened = (*env)->ExceptionCheck(env) ? NULL : (*env)->NewGlobalRef(env, local);
    }
    tfos_status status = leave(self, env, error);
    if (status == TFOS_OK && (opened == NULL || size < 0)) {
        status = fail_answer(path, "no file, or one of no size", error);
        (*env)->DeleteGlobalRef(env, opened);
    }
    if (status == TFOS_OK) {
        *bytes = size;
        *file = opened;
    }
    return status;
}

static tfos_status read_file(void *context, void *file, int64_t offset, void *to, size_t bytes, size_t *got,
                             tfos_error *error)
{
    tfos__jni_files *self = context;
    JNIEnv *env = enter(error);
    if (env == NULL) {
        return TFOS_NO_MEMORY;
    }
    jint count = 0;
    jobject buffer = (*env)->NewDirectByteBuffer(env, to, bytes < MOST_BYTES ? (jlong)bytes : MOST_BYTES);
    if (buffer != NULL) {
        count = (*env)->CallIntMethod(env, file, self->read, (jlong)offset, buffer);
    }
    tfos_status status = leave(self, env, error);
    if (status == TFOS_OK && count > 0 && (size_t)count > bytes) {
        return fail_answer("a file", "more bytes than there was room for", error);
    }
    *got = status == TFOS_OK && count > 0 ? (size_t)count : 0;
    return status;
}

static void close_file(void *context, void *file)
{
    tfos__jni_files *self = context;
    JNIEnv *env = enter(NULL);
    if (env != NULL) {
        (*env)->CallVoidMethod(env, file, self->close);
        leave(self, env, NULL);
        (*env)->DeleteGlobalRef(env, file);
    }
}

static tfos_status create_file(void *context, const char *path, bool overwrite, void **file, tfos_error *error)
{
    tfos__jni_files *self = context;
    JNIEnv *env = enter(error);
    jobject created = NULL;
    if (env == NULL) {
        return TFOS_NO_MEMORY;
    }
    jstring name = text_of(self, env, path);
    jobject local =
        name != NULL ? (*env)->CallObjectMethod(env, self->files, self->create, name, (jboolean)overwrite) : NULL;
    if (local != NULL && !(*env)->ExceptionCheck(env)) {
        created = (*env)->NewGlobalRef(env, local);
    }
    tfos_status status = leave(self, env, error);
    if (status == TFOS_OK && created == NULL) {
        return fail_answer(path, "no file", error);
    }
    if (status == TFOS_OK) {
        *file = created;
    }
    return status;
}

static tfos_status write_file(void *context, void *file, const void *bytes, size_t count, tfos_error *error)
{
    tfos__jni_files *self = context;
    for (size_t done = 0; done < count;) {
        JNIEnv *env = enter(error);
        if (env == NULL) {
            return TFOS_NO_MEMORY;
        }
        size_t part = count - done < MOST_BYTES ? count - done : MOST_BYTES;
        void *from = (uint8_t *)(uintptr_t)bytes + done; /* Java only reads it */
        jobject buffer = (*env)->NewDirectByteBuffer(env, from, (jlong)part);
        if (buffer != NULL) {
            (*env)->CallVoidMethod(env, file, self->write, buffer);
        }
        tfos_status status = leave(self, env, error);
        if (status != TFOS_OK) {
            return status;
        }
        done += part;
    }
    return TFOS_OK;
}

static tfos_status end_output(tfos__jni_files *self, void *file, jmethodID how, tfos_error *error)
{
    JNIEnv *env = enter(error);
    if (env == NULL) {
        return TFOS_NO_MEMORY;
    }
    (*env)->CallVoidMethod(env, file, how);
    tfos_status status = leave(self, env, error);
    (*env)->DeleteGlobalRef(env, file);
    return status;
}

static tfos_status finish_file(void *context, void *file, tfos_error *error)
{
    tfos__jni_files *self = context;
    return end_output(self, file, self->finish, error);
}

static void abandon_file(void *context, void *file)
{
    tfos__jni_files *self = context;
    end_output(self, file, self->abandon, NULL);
}

bool tfos__jni_files_interrupted(void *context)
{
    tfos__jni_files *self = context;
    JNIEnv *env = self->files != NULL ? enter(NULL) : NULL;
    if (env == NULL) {
        return false;
    }
    bool interrupted = (*env)->CallBooleanMethod(env, self->files, self->interrupted);
    return leave(self, env, NULL) != TFOS_OK || interrupted;
}

/* ---- life ---- */

bool tfos__jni_files_init(tfos__jni_files *self, JNIEnv *env, jclass class, jobject files)
{
    tfos_file_system_init(&self->system, sizeof self->system);
    self->native_class = (*env)->NewGlobalRef(env, class);
    self->files = files != NULL ? (*env)->NewGlobalRef(env, files) : NULL;
    self->open = find(env, "org/tfos/ServedFiles", "open", "(Ljava/lang/String;)Lorg/tfos/ServedFiles$Input;");
    self->create = find(env, "org/tfos/ServedFiles", "create", "(Ljava/lang/String;Z)Lorg/tfos/ServedFiles$Output;");
    self->interrupted = find(env, "org/tfos/ServedFiles", "interrupted", "()Z");
    self->size = find(env, "org/tfos/ServedFiles$Input", "size", "()J");
    self->read = find(env, "org/tfos/ServedFiles$Input", "read", "(JLjava/nio/ByteBuffer;)I");
    self->close = find(env, "org/tfos/ServedFiles$Input", "close", "()V");
    self->write = find(env, "org/tfos/ServedFiles$Output", "write", "(Ljava/nio/ByteBuffer;)V");
    self->finish = find(env, "org/tfos/ServedFiles$Output", "finish", "()V");
    self->abandon = find(env, "org/tfos/ServedFiles$Output", "abandon", "()V");
    if (files != NULL) {
        self->system.context = self;
        self->system.open = open_file;
        self->system.read = read_file;
        self->system.close = close_file;
        self->system.create = create_file;
        self->system.write = write_file;
        self->system.finish = finish_file;
        self->system.abandon = abandon_file;
    }
    return !(*env)->ExceptionCheck(env);
}

void tfos__jni_files_reset(tfos__jni_files *self, JNIEnv *env)
{
    (*env)->DeleteGlobalRef(env, self->native_class);
    (*env)->DeleteGlobalRef(env, self->files);
    *self = (tfos__jni_files){0};
}

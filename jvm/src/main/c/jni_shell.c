/* The JNI side of org.tfos.Native: the library, texts and failures. */
#include "jni_shell.h"

#include <pthread.h>

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

jbyteArray tfos__jni_new_bytes(JNIEnv *env, const char *text)
{
    jsize count = (jsize)strlen(text);
    jbyteArray bytes = (*env)->NewByteArray(env, count);
    if (bytes != NULL) {
        (*env)->SetByteArrayRegion(env, bytes, 0, count, (const jbyte *)text);
    }
    return bytes;
}

void tfos__jni_throw(JNIEnv *env, jclass class, const tfos_error *error)
{
    jmethodID method = (*env)->GetStaticMethodID(env, class, "fail", "(II[B)V");
    jbyteArray message = method != NULL ? tfos__jni_new_bytes(env, error->message) : NULL;
    if (message != NULL) {
        (*env)->CallStaticVoidMethod(env, class, method, (jint)error->status, (jint)error->fault, message);
    }
}

void tfos__jni_throw_memory(JNIEnv *env, jclass class)
{
    tfos__jni_throw(env, class,
                    &(tfos_error){.status = TFOS_NO_MEMORY, .message = "no memory for what Java has passed"});
}

char *tfos__jni_copy_bytes(JNIEnv *env, jclass class, jbyteArray bytes, size_t *count)
{
    jsize length = (*env)->GetArrayLength(env, bytes);
    char *copy = malloc((size_t)length + 1);
    if (copy == NULL) {
        tfos__jni_throw_memory(env, class);
        return NULL;
    }
    (*env)->GetByteArrayRegion(env, bytes, 0, length, (jbyte *)copy);
    copy[length] = '\0';
    *count = (size_t)length;
    return copy;
}

tfos_status tfos__jni_describe(JNIEnv *env, jclass class, jthrowable thrown, tfos_error *error)
{
    jbyte kind[2] = {TFOS_RAISED, TFOS_FAULT_AGAIN};
    jmethodID method = (*env)->GetStaticMethodID(env, class, "describe", "(Ljava/lang/Throwable;)[B");
    jbyteArray bytes = method != NULL ? (*env)->CallStaticObjectMethod(env, class, method, thrown) : NULL;
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

/* ---- threads ---- */

static JavaVM *machine;
static pthread_key_t attached;

static void detach(void *unused)
{
    (void)unused;
    (*machine)->DetachCurrentThread(machine);
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved);
JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved)
{
    (void)reserved;
    machine = vm;
    return pthread_key_create(&attached, detach) == 0 ? JNI_VERSION_10 : JNI_ERR;
}

/* A thread of the library's is made known to the JVM when it first calls Java, and leaves it when it ends. */
JNIEnv *tfos__jni_env(void)
{
    void *env = NULL;
    if ((*machine)->GetEnv(machine, &env, JNI_VERSION_10) == JNI_OK) {
        return env;
    }
    JavaVMAttachArgs name = {.version = JNI_VERSION_10, .name = (char[]){"tfos"}};
    if ((*machine)->AttachCurrentThreadAsDaemon(machine, &env, &name) != JNI_OK) {
        return NULL;
    }
    pthread_setspecific(attached, env);
    return env;
}

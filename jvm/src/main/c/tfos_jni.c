/* The JNI side of org.tfos.Native: converts arguments, calls libtfos, translates what comes back, and nothing else. */
#include <jni.h>

#include "tfos.h"

JNIEXPORT jstring JNICALL Java_org_tfos_Native_loadedVersion(JNIEnv *env, jclass class);
JNIEXPORT jstring JNICALL Java_org_tfos_Native_builtVersion(JNIEnv *env, jclass class);
JNIEXPORT jstring JNICALL Java_org_tfos_Native_nameOfStatus(JNIEnv *env, jclass class, jint status);
JNIEXPORT jstring JNICALL Java_org_tfos_Native_textOfStatus(JNIEnv *env, jclass class, jint status);

/* The version of the libtfos that this process has loaded … */
JNIEXPORT jstring JNICALL Java_org_tfos_Native_loadedVersion(JNIEnv *env, jclass class)
{
    (void)class;
    return (*env)->NewStringUTF(env, tfos_version());
}

/* … and the one that this file was compiled for. They differ when another class loader brought an older jar. */
JNIEXPORT jstring JNICALL Java_org_tfos_Native_builtVersion(JNIEnv *env, jclass class)
{
    (void)class;
    return (*env)->NewStringUTF(env, TFOS_VERSION);
}

JNIEXPORT jstring JNICALL Java_org_tfos_Native_nameOfStatus(JNIEnv *env, jclass class, jint status)
{
    (void)class;
    return (*env)->NewStringUTF(env, tfos_status_name((tfos_status)status));
}

JNIEXPORT jstring JNICALL Java_org_tfos_Native_textOfStatus(JNIEnv *env, jclass class, jint status)
{
    (void)class;
    return (*env)->NewStringUTF(env, tfos_status_text((tfos_status)status));
}

/* The JNI side of org.tfos.Native: SavedModels. */
#include <stdio.h>

#include "jni_shell.h"

/* The texts of a plan: fed, columns, results, order, and the number of rows. NULL: an exception is pending. */
static jobjectArray texts_of(JNIEnv *env, const tfos_model_plan *plan)
{
    char rows[32];
    snprintf(rows, sizeof rows, "%lld", (long long)plan->batch_rows);
    const char *const texts[] = {plan->fed, plan->columns, plan->results, plan->order, rows};
    const jsize count = (jsize)(sizeof texts / sizeof texts[0]);
    jclass type = (*env)->FindClass(env, "[B");
    jobjectArray array = type != NULL ? (*env)->NewObjectArray(env, count, type, NULL) : NULL;
    for (jsize i = 0; array != NULL && i < count; i++) {
        jbyteArray bytes = tfos__jni_new_bytes(env, texts[i]);
        if (bytes == NULL) {
            return NULL;
        }
        (*env)->SetObjectArrayElement(env, array, i, bytes);
    }
    return array;
}

NATIVE(jobjectArray, modelPlan, jbyteArray folder, jbyteArray tags, jbyteArray order, jbyteArray schema, jobject files)
{
    enum { TEXTS = 4 };
    const jbyteArray given[TEXTS] = {folder, tags, order, schema};
    char *texts[TEXTS] = {NULL};
    tfos__jni_files served = {0};
    tfos_model_plan plan;
    tfos_error error = {0};
    jobjectArray result = NULL;
    size_t ignored;
    size_t count = 0;
    while (count < TEXTS && (texts[count] = tfos__jni_copy_bytes(env, class, given[count], &ignored)) != NULL) {
        count++;
    }
    if (count == TEXTS && tfos__jni_files_init(&served, env, class, files)) {
        if (tfos_model_plan_make(&served.system, texts[0], texts[1], texts[2], texts[3], &plan, &error) == TFOS_OK) {
            result = texts_of(env, &plan);
            tfos_model_plan_reset(&plan);
        } else {
            tfos__jni_throw(env, class, &error);
        }
    }
    tfos__jni_files_reset(&served, env);
    while (count > 0) {
        free(texts[--count]);
    }
    return result;
}

/* The JNI side of org.tfos.Native: SavedModels. */
#include "jni_shell.h"

NATIVE(jbyteArray, modelPlan, jbyteArray folder, jbyteArray tags, jbyteArray order, jbyteArray schema, jobject files)
{
    enum { TEXTS = 4 };
    const jbyteArray given[TEXTS] = {folder, tags, order, schema};
    char *texts[TEXTS] = {NULL};
    tfos__jni_files served = {0};
    tfos_error error = {0};
    char *plan = NULL;
    jbyteArray result = NULL;
    size_t ignored;
    size_t count = 0;
    while (count < TEXTS && (texts[count] = tfos__jni_copy_bytes(env, class, given[count], &ignored)) != NULL) {
        count++;
    }
    if (count == TEXTS && tfos__jni_files_init(&served, env, class, files)) {
        tfos_status status =
            tfos_model_plan(&served.system, texts[0], texts[1], texts[2], texts[3], &plan, &error);
        if (status == TFOS_OK) {
            result = tfos__jni_new_bytes(env, plan);
        } else {
            tfos__jni_throw(env, class, &error);
        }
    }
    tfos__jni_files_reset(&served, env);
    tfos_string_free(plan);
    while (count > 0) {
        free(texts[--count]);
    }
    return result;
}

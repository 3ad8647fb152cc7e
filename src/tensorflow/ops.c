/* Registering the ops. */
#include "tensorflow/ops.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t register_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whoever has the first of them has all. Also those that another library of this process has registered. */
static tfos_status look_for_kernels(const tfos__tensorflow *tf, TF_Status *status, bool *out, tfos_error *error)
{
    TF_Buffer *kernels = tf->TF_GetRegisteredKernelsForOp("TfosFeedNext", status);
    tfos_status ours = tfos__tensorflow_check(tf, status, "cannot look for the op TfosFeedNext", error);
    *out = ours == TFOS_OK && kernels->length > 0;
    if (kernels != NULL) {
        tf->TF_DeleteBuffer(kernels);
    }
    return ours;
}

tfos_status tfos__ops_register(const tfos__tensorflow *tf, tfos_error *error)
{
    bool there;
    TF_Status *status = tf->TF_NewStatus();
    pthread_mutex_lock(&register_lock);
    tfos_status ours = look_for_kernels(tf, status, &there, error);
    if (ours == TFOS_OK && !there) {
        tfos__ops_add_feed(tf, status);
        ours = tfos__tensorflow_check(tf, status, "cannot register the op TfosFeedNext", error);
    }
    if (ours == TFOS_OK && !there) {
        tfos__ops_add_merge(tf, status);
        ours = tfos__tensorflow_check(tf, status, "cannot register the op TfosMerge", error);
    }
    if (ours == TFOS_OK && !there) {
        tfos__ops_add_records(tf, status);
        ours = tfos__tensorflow_check(tf, status, "cannot register the ops of records", error);
    }
    pthread_mutex_unlock(&register_lock);
    tf->TF_DeleteStatus(status);
    return ours;
}

char *tfos__ops_read_text(const tfos__tensorflow *tf, TF_OpKernelConstruction *from, const char *name, size_t *bytes,
                          TF_Status *status)
{
    int32_t list;
    int32_t total;
    tf->TF_OpKernelConstruction_GetAttrSize(from, name, &list, &total, status);
    char *text = tf->TF_GetCode(status) == 0 ? calloc((size_t)total + 1, 1) : NULL;
    if (text != NULL) {
        tf->TF_OpKernelConstruction_GetAttrString(from, name, text, (size_t)total, status);
        *bytes = (size_t)total;
    }
    return text;
}

/* Checkpoints of a session, by the tensors that the model has for them. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "tensorflow/session.h"

typedef struct text_tensor {
    const tfos__tensorflow *tf;
    TF_TString *text;
} text_tensor;

static void free_text(void *data, size_t bytes, void *context)
{
    text_tensor *self = context;
    (void)bytes;
    self->tf->TF_StringDealloc(self->text);
    free(data);
    free(self);
}

static TF_Tensor *tensor_of_text(const tfos__tensorflow *tf, const char *text)
{
    void *memory = NULL;
    text_tensor *self = malloc(sizeof *self);
    if (self == NULL || posix_memalign(&memory, TFOS__BUFFER_ALIGN, TFOS__BUFFER_ALIGN) != 0) {
        free(self);
        return NULL;
    }
    memset(memory, 0, TFOS__BUFFER_ALIGN);
    *self = (text_tensor){tf, memory};
    tf->TF_StringCopy(self->text, text, strlen(text));
    return tf->TF_NewTensor(TFOS__DTYPE_STRING, NULL, 0, memory, sizeof *self->text, free_text, self);
}

/* Runs what saves, or what restores, with the name of the checkpoint. */
static tfos_status run_saver(const tfos__session *session, const char *prefix, tfos__session_call *call,
                             tfos_error *error)
{
    TF_Output filename;
    TFOS_TRY(tfos__session_tensor(session, session->about->saver_filename, &filename, error));
    TF_Tensor *name = tensor_of_text(session->tf, prefix);
    if (name == NULL) {
        return tfos__fail_memory(error, strlen(prefix));
    }
    call->inputs = &filename;
    call->input_values = &name;
    call->input_count = 1;
    tfos_status status = tfos__session_run(session, call, prefix, error);
    session->tf->TF_DeleteTensor(name);
    return status;
}

tfos_status tfos__session_save(const tfos__session *session, const char *prefix, tfos_error *error)
{
    TF_Output save;
    TF_Tensor *got = NULL;
    TFOS_TRY(tfos__session_tensor(session, session->about->saver_save, &save, error));
    tfos__session_call call = {.outputs = &save, .output_values = &got, .output_count = 1};
    tfos_status status = run_saver(session, prefix, &call, error);
    if (got != NULL) {
        session->tf->TF_DeleteTensor(got);
    }
    return status;
}

tfos_status tfos__session_restore(const tfos__session *session, const char *prefix, tfos_error *error)
{
    const char *name = session->about->saver_restore;
    const TF_Operation *restore = session->tf->TF_GraphOperationByName(session->graph, name);
    if (restore == NULL) {
        return tfos__fail(error, TFOS_CORRUPT, "%s: the graph has no op '%s', which restores variables",
                          session->about->folder, tfos__printable_text(name).text);
    }
    tfos__session_call call = {.targets = &restore, .target_count = 1};
    return run_saver(session, prefix, &call, error);
}

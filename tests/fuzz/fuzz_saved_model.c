/* saved_model.pb: any bytes are refused with a message, or are a model whose signatures can be asked for. */
#include "fuzz_tools.h"
#include "tensorflow/saved_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct model_file {
    const uint8_t *data;
    size_t bytes;
} model_file;

static tfos_status open_model(void *context, const char *path, void **out, int64_t *bytes, tfos_error *error)
{
    const model_file *file = context;
    (void)error;
    if (strstr(path, "saved_model.pbtxt") != NULL || strstr(path, "saved_model.cpb") != NULL) {
        return TFOS_NOT_FOUND;
    }
    *out = context;
    *bytes = (int64_t)file->bytes;
    return TFOS_OK;
}

static tfos_status read_model(void *context, void *handle, int64_t offset, void *to, size_t bytes, size_t *got,
                              tfos_error *error)
{
    const model_file *file = context;
    size_t left = (size_t)offset < file->bytes ? file->bytes - (size_t)offset : 0;
    (void)handle;
    (void)error;
    *got = left < bytes ? left : bytes;
    if (*got > 0) {
        memcpy(to, file->data + offset, *got);
    }
    return TFOS_OK;
}

static void close_model(void *context, void *handle)
{
    (void)context;
    (void)handle;
}

static void check_specs(const tfos__tensor_specs *specs)
{
    for (size_t i = 0; i < specs->count; i++) {
        char text[64];
        tfos__tensor_spec_describe(&specs->at[i], text, sizeof text);
        require(strlen(text) < sizeof text && specs->at[i].rank >= -1, "a tensor that cannot be told");
        require(i == 0 || strcmp(specs->at[i - 1].name, specs->at[i].name) != 0, "a name that comes twice");
    }
}

/* A layer is found, or is not, or the graph does not parse as far as that is asked of it. */
static void check_layer(const tfos__saved_model *model, const tfos__signature *signature, const char *layer)
{
    tfos__layer_search search;
    tfos_error error = {0};
    tfos_status status = tfos__saved_model_find_layer(model, signature, layer, &search, &error);
    require(status == TFOS_OK || error.message[0] != '\0', "a layer that is not found without a message");
    require(status != TFOS_OK || search.count == signature->outputs.count, "an output that was not looked at");
    require(search.output == NULL || search.fits == 1, "a layer that makes several outputs");
    tfos__layer_search_reset(&search);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    model_file file = {data, bytes};
    tfos_file_system system;
    tfos__saved_model *model = NULL;
    tfos_error error = {0};
    tfos_file_system_init(&system, sizeof system);
    system.context = &file;
    system.open = open_model;
    system.read = read_model;
    system.close = close_model;
    if (tfos__saved_model_read(&system, "memory://model", "serve", &model, &error) != TFOS_OK) {
        require(error.status != TFOS_OK && error.message[0] != '\0', "a failure without a message");
        return 0;
    }
    for (size_t i = 0; i < model->signature_count; i++) {
        const tfos__signature *found;
        const char *name = model->signatures[i].name;
        require(tfos__saved_model_signature(model, name, &found, NULL) == TFOS_OK, "a signature that is not found");
        check_specs(&found->inputs);
        check_specs(&found->outputs);
        check_layer(model, found, "digit");
        check_layer(model, found, "dense_1");
    }
    for (size_t i = 0; i < model->op_count; i++) {
        require(tfos__saved_model_has_op(model, model->ops[i]), "an op that is not found");
    }
    tfos__saved_model_free(model);
    return 0;
}

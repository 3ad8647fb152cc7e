/* What a model takes and gives: its signatures, from its file, without TensorFlow. */
#include <string.h>

#include "base/status.h"
#include "cli/infer.h"

enum { DESCRIPTION_BYTES = 192 };

/* ---- for people ---- */

static void add_rows(tfos__cli_table *table, const char *what, const tfos__tensor_specs *specs)
{
    for (size_t i = 0; i < specs->count; i++) {
        char text[DESCRIPTION_BYTES];
        tfos__tensor_spec_describe(&specs->at[i], text, sizeof text);
        tfos__cli_table_add(table, i == 0 ? what : "");
        tfos__cli_table_add(table, specs->at[i].name);
        tfos__cli_table_add(table, text);
    }
}

static void show_signature(const tfos__signature *signature)
{
    tfos__buffer name = {0};
    tfos__cli_table *table = tfos__cli_table_new(3, "lll");
    tfos__cli_show_text(signature->name, strlen(signature->name), &name);
    tfos__cli_print("%.*s\n", (int)name.size, name.size > 0 ? (const char *)name.data : "");
    tfos__buffer_reset(&name);
    if (table != NULL) {
        add_rows(table, "  takes", &signature->inputs);
        add_rows(table, "  gives", &signature->outputs);
        tfos__cli_table_print(table);
        tfos__cli_table_free(table);
    }
}

/* ---- for scripts ---- */

static const char *form_name(tfos__tensor_form form)
{
    return form == TFOS__TENSOR_DENSE ? "dense" : form == TFOS__TENSOR_SPARSE ? "sparse" : "composite";
}

static json_object *tensors_of(const tfos__tensor_specs *specs)
{
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < specs->count; i++) {
        const tfos__tensor_spec *spec = &specs->at[i];
        json_object *tensor = json_object_new_object();
        json_object *shape = spec->rank >= 0 ? json_object_new_array() : NULL;
        for (int k = 0; k < spec->rank; k++) {
            json_object_array_add(shape, spec->shape[k] >= 0 ? json_object_new_int64(spec->shape[k]) : NULL);
        }
        json_object_object_add(tensor, "name", json_object_new_string(spec->name));
        json_object_object_add(tensor, "dtype", json_object_new_string(tfos__dtype_name(spec->dtype)));
        json_object_object_add(tensor, "shape", shape);
        json_object_object_add(tensor, "form", json_object_new_string(form_name(spec->form)));
        json_object_array_add(list, tensor);
    }
    return list;
}

static void add_signature(json_object *to, const tfos__signature *signature)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "inputs", tensors_of(&signature->inputs));
    json_object_object_add(object, "outputs", tensors_of(&signature->outputs));
    json_object_object_add(to, signature->name, object);
}

/* ---- both ---- */

static void show(const tfos__infer_options *options, const tfos__saved_model *model, const tfos__signature *only)
{
    json_object *all = json_object_new_object();
    for (size_t i = 0; i < model->signature_count; i++) {
        const tfos__signature *signature = &model->signatures[i];
        if (only != NULL && only != signature) {
            continue;
        }
        if (options->convert.common.json) {
            add_signature(all, signature);
        } else {
            show_signature(signature);
        }
    }
    if (options->convert.common.json) {
        json_object *told = json_object_new_object();
        json_object_object_add(told, "signatures", json_object_get(all));
        json_object_object_add(told, "tensorflow", json_object_new_string(model->version));
        tfos__cli_print("%s\n", json_object_to_json_string_ext(told, INFER_JSON));
        json_object_put(told);
    }
    json_object_put(all);
}

int tfos__infer_show(const tfos__infer_options *options)
{
    tfos_error error;
    tfos__saved_model *model = NULL;
    const tfos__signature *only = NULL;
    tfos_status status = tfos__saved_model_read(NULL, options->model, options->tags, &model, &error);
    if (status == TFOS_OK && options->signature[0] != '\0') {
        status = tfos__saved_model_signature(model, options->signature, &only, &error);
    }
    if (status == TFOS_OK) {
        show(options, model, only);
    }
    tfos__saved_model_free(model);
    return status == TFOS_OK ? CLI_OK : tfos__cli_fail(&error);
}

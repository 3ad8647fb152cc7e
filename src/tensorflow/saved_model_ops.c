/* Ops: which ones a graph is made of, sorted by name. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensorflow/saved_model_parts.h"

/* Where an op is among those known, or would be. */
static size_t place_of_op(const tfos__saved_model *model, const char *name, size_t bytes, bool *found)
{
    size_t low = 0;
    size_t high = model->op_count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(model->ops[middle], name, bytes);
        order = order != 0 ? order : model->ops[middle][bytes] != '\0';
        if (order == 0) {
            *found = true;
            return middle;
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return low;
}

static tfos_status take_op(tfos__saved_model *model, tfos__wire name, tfos_error *error)
{
    bool found;
    size_t bytes = (size_t)(name.end - name.at);
    if (bytes == 0 || memchr(name.at, '\0', bytes) != NULL) {
        return bytes == 0 ? TFOS_OK : tfos__model_fail(error);
    }
    size_t place = place_of_op(model, (const char *)name.at, bytes, &found);
    if (found) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__array_reserve(&model->ops, model->op_count, &model->op_capacity, sizeof *model->ops, error));
    char *copy = strndup((const char *)name.at, bytes);
    if (copy == NULL) {
        return tfos__fail_memory(error, bytes + 1);
    }
    memmove(model->ops + place + 1, model->ops + place, (model->op_count - place) * sizeof *model->ops);
    model->ops[place] = copy;
    model->op_count++;
    return TFOS_OK;
}

bool tfos__saved_model_has_op(const tfos__saved_model *model, const char *name)
{
    bool found;
    place_of_op(model, name, strlen(name), &found);
    return found;
}

static tfos_status take_node_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 2 ? take_op(context, field->bytes, error) : TFOS_OK;
}

static tfos_status take_function_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 3 ? tfos__model_each_field(field->bytes, take_node_field, context, error) : TFOS_OK;
}

static tfos_status take_library_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 1 ? tfos__model_each_field(field->bytes, take_function_field, context, error) : TFOS_OK;
}

static tfos_status take_graph_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    switch (field->number) {
    case 1:
        return tfos__model_each_field(field->bytes, take_node_field, context, error);
    case 2:
        return tfos__model_each_field(field->bytes, take_library_field, context, error);
    default:
        return TFOS_OK;
    }
}

/* A function may be called by its name as if that were an op. */
static tfos_status drop_function_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    tfos__saved_model *model = context;
    char *name = NULL;
    bool found;
    if (field->number != 1) {
        return TFOS_OK;
    }
    tfos_status status = tfos__model_take_text(field->bytes, &name, error);
    if (status == TFOS_OK) {
        size_t place = place_of_op(model, name, strlen(name), &found);
        if (found) {
            free(model->ops[place]);
            model->op_count--;
            memmove(model->ops + place, model->ops + place + 1, (model->op_count - place) * sizeof *model->ops);
        }
    }
    free(name);
    return status;
}

static tfos_status drop_signature_of_function(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 1 ? tfos__model_each_field(field->bytes, drop_function_field, context, error) : TFOS_OK;
}

static tfos_status drop_functions(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 1 ? tfos__model_each_field(field->bytes, drop_signature_of_function, context, error)
                              : TFOS_OK;
}

static tfos_status drop_functions_of_graph(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 2 ? tfos__model_each_field(field->bytes, drop_functions, context, error) : TFOS_OK;
}

tfos_status tfos__model_take_ops(tfos__saved_model *model, tfos__wire graph, tfos_error *error)
{
    TFOS_TRY(tfos__model_each_field(graph, take_graph_field, model, error));
    return tfos__model_each_field(graph, drop_functions_of_graph, model, error);
}

/* SavedModel: the protobuf messages of saved_model.pb, as far as they say what a model takes and gives. Field numbers
 * are those of TensorFlow's saved_model.proto, meta_graph.proto, graph.proto and tensor_shape.proto. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "fs/fs.h"
#include "fs/local.h"
#include "tensorflow/saved_model_parts.h"

enum { MOST_FILE_BYTES = INT32_MAX };

/* ---- graphs ---- */

static tfos_status take_info_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    tfos__saved_model *model = context;
    return field->number == 5 ? tfos__model_take_text(field->bytes, &model->version, error) : TFOS_OK;
}

static tfos_status take_saver_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    tfos__saved_model *model = context;
    char **texts[] = {NULL, &model->saver_filename, &model->saver_save, &model->saver_restore};
    return field->number >= 1 && field->number <= 3 ? tfos__model_take_text(field->bytes, texts[field->number], error)
                                                    : TFOS_OK;
}

static tfos_status take_meta_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    tfos__saved_model *model = context;
    switch (field->number) {
    case 1:
        return tfos__model_each_field(field->bytes, take_info_field, model, error);
    case 2:
        return tfos__model_take_ops(model, field->bytes, error);
    case 3:
        return tfos__model_each_field(field->bytes, take_saver_field, model, error);
    case 5:
        return tfos__model_take_signature(model, field->bytes, error);
    default:
        return TFOS_OK;
    }
}

/* The tags of a graph against those that are asked for. */
typedef struct tag_search {
    const char *wanted;
    size_t count;      /* tags of the graph */
    size_t known;      /* … that are wanted */
    tfos__buffer text; /* all of them, for a message */
} tag_search;

/* The next of the names between commas: *bytes of them, spaces around it left out; NULL behind the last. */
static const char *next_tag(const char **rest, size_t *bytes)
{
    while (**rest == ',' || **rest == ' ') {
        ++*rest;
    }
    if (**rest == '\0') {
        return NULL;
    }
    const char *name = *rest;
    *bytes = strcspn(name, ",");
    *rest += *bytes;
    while (name[*bytes - 1] == ' ') {
        --*bytes;
    }
    return name;
}

static bool is_wanted(const char *wanted, tfos__wire tag)
{
    size_t bytes;
    for (const char *name = next_tag(&wanted, &bytes); name != NULL; name = next_tag(&wanted, &bytes)) {
        if (bytes == (size_t)(tag.end - tag.at) && memcmp(name, tag.at, bytes) == 0) {
            return true;
        }
    }
    return false;
}

static tfos_status look_at_tag(void *context, const tfos__model_field *field, tfos_error *error)
{
    tag_search *search = context;
    if (field->number != 4) {
        return TFOS_OK;
    }
    size_t bytes = (size_t)(field->bytes.end - field->bytes.at);
    TFOS_TRY(tfos__buffer_printf(&search->text, error, "%s%s", search->count > 0 ? "," : "",
                                 tfos__printable_of(field->bytes.at, bytes).text));
    search->count++;
    search->known += is_wanted(search->wanted, field->bytes);
    return TFOS_OK;
}

static tfos_status look_at_info(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 1 ? tfos__model_each_field(field->bytes, look_at_tag, context, error) : TFOS_OK;
}

/* What is looked for, and the tag sets that were met on the way. */
typedef struct graph_search {
    const char *tags;
    size_t tag_count;
    bool found;
    tfos__wire meta; /* the message of the graph, if it was found */
    tfos__buffer others;
} graph_search;

static tfos_status look_at_graph(void *context, const tfos__model_field *field, tfos_error *error)
{
    graph_search *state = context;
    if (field->number != 2 || state->found) {
        return TFOS_OK;
    }
    tag_search search = {.wanted = state->tags};
    tfos_status status = tfos__model_each_field(field->bytes, look_at_info, &search, error);
    state->found = status == TFOS_OK && search.count == state->tag_count && search.known == search.count;
    if (state->found) {
        state->meta = field->bytes;
    } else if (status == TFOS_OK) {
        status = tfos__buffer_printf(&state->others, error, "%s'%s'", state->others.size > 0 ? ", " : "",
                                     search.text.size > 0 ? (const char *)search.text.data : "");
    }
    tfos__buffer_reset(&search.text);
    return status;
}

static size_t count_tags(const char *tags)
{
    size_t count = 0;
    size_t bytes;
    while (next_tag(&tags, &bytes) != NULL) {
        count++;
    }
    return count;
}

/* ---- files ---- */

static char *path_in(const char *folder, const char *name)
{
    char *path = NULL;
    size_t bytes = strlen(folder);
    const char *between = bytes > 0 && folder[bytes - 1] == '/' ? "" : "/";
    return asprintf(&path, "%s%s%s", folder, between, name) < 0 ? NULL : path;
}

static bool has_file(const tfos_file_system *served, const char *folder, const char *name)
{
    tfos__file *file = NULL;
    char *path = path_in(folder, name);
    bool found = path != NULL && tfos__file_open(served, path, &file, NULL) == TFOS_OK;
    tfos__file_close(file);
    free(path);
    return found;
}

static tfos_status fail_missing(const tfos_file_system *served, const char *folder, tfos_error *error)
{
    if (has_file(served, folder, "saved_model.pbtxt") || has_file(served, folder, "saved_model.cpb")) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "%s: the SavedModel is in a form that is not read here (saved_model.pbtxt or .cpb): export "
                          "it with model.export(…) or tf.saved_model.save(…), which write saved_model.pb",
                          folder);
    }
    return tfos__fail(error, TFOS_NOT_FOUND,
                      "%s: expected a SavedModel, found no saved_model.pb in this folder: give the folder that "
                      "model.export(…) or tf.saved_model.save(…) has made",
                      folder);
}

static tfos_status slurp(const tfos_file_system *served, const char *folder, tfos__buffer *out, tfos_error *error)
{
    char *path = path_in(folder, "saved_model.pb");
    if (path == NULL) {
        return tfos__fail_memory(error, strlen(folder));
    }
    tfos_status status = tfos__file_slurp(served, path, MOST_FILE_BYTES, out, error);
    free(path);
    return status == TFOS_NOT_FOUND ? fail_missing(served, folder, error) : status;
}

tfos_status tfos__model_each_of_file(const tfos__saved_model *model, tfos__model_field_function function, void *context,
                                     tfos__buffer *bytes, tfos_error *error)
{
    graph_search state = {.tags = model->tags, .tag_count = count_tags(model->tags)};
    TFOS_TRY(slurp(model->served, model->folder, bytes, error));
    tfos_status status =
        tfos__model_each_field((tfos__wire){bytes->data, bytes->data + bytes->size}, look_at_graph, &state, error);
    if (status == TFOS_OK && state.found) {
        status = tfos__model_each_field(state.meta, function, context, error);
    } else if (status == TFOS_OK) {
        status =
            tfos__fail(error, TFOS_NOT_FOUND, "%s: expected a graph with the tag set '%s', found %s", model->folder,
                       model->tags, state.others.size > 0 ? (const char *)state.others.data : "no graph at all");
    }
    if (status == TFOS_CORRUPT) {
        tfos__error_prefix(error, "%s/saved_model.pb", model->folder);
    }
    tfos__buffer_reset(&state.others);
    return status;
}

/* Texts that the file does not have are empty. */
static tfos_status fill_texts(tfos__saved_model *model, tfos_error *error)
{
    char **texts[] = {&model->version, &model->saver_filename, &model->saver_save, &model->saver_restore};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (*texts[i] == NULL) {
            TFOS_TRY(tfos__model_take_text((tfos__wire){0}, texts[i], error));
        }
    }
    return TFOS_OK;
}

tfos_status tfos__saved_model_read(const tfos_file_system *served, const char *folder, const char *tags,
                                   tfos__saved_model **out, tfos_error *error)
{
    tfos__buffer bytes = {0};
    const char *place = folder;
    if (served == NULL) {
        TFOS_TRY(tfos__path_local(folder, &place, error));
    }
    tfos__saved_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return tfos__fail_memory(error, sizeof *model);
    }
    model->served = served;
    model->folder = strdup(place);
    model->tags = strdup(tags);
    tfos_status status = model->folder != NULL && model->tags != NULL
                             ? tfos__model_each_of_file(model, take_meta_field, model, &bytes, error)
                             : tfos__fail_memory(error, strlen(folder) + strlen(tags));
    status = status == TFOS_OK ? fill_texts(model, error) : status;
    tfos__buffer_reset(&bytes);
    if (status != TFOS_OK) {
        tfos__saved_model_free(model);
        return status;
    }
    tfos__model_sort_signatures(model);
    *out = model;
    return TFOS_OK;
}

void tfos__saved_model_free(tfos__saved_model *model)
{
    if (model == NULL) {
        return;
    }
    for (size_t i = 0; i < model->signature_count; i++) {
        tfos__model_reset_signature(&model->signatures[i]);
    }
    for (size_t i = 0; i < model->op_count; i++) {
        free(model->ops[i]);
    }
    free(model->signatures);
    free(model->ops);
    free(model->folder);
    free(model->tags);
    free(model->version);
    free(model->saver_filename);
    free(model->saver_save);
    free(model->saver_restore);
    free(model);
}

static tfos_status fail_signature(const tfos__saved_model *model, const char *name, tfos_error *error)
{
    tfos__buffer names = {0};
    tfos_status status = TFOS_OK;
    for (size_t i = 0; i < model->signature_count && status == TFOS_OK; i++) {
        const char *each = model->signatures[i].name;
        status = tfos__buffer_printf(&names, error, "%s'%s'", i > 0 ? ", " : "", tfos__printable_text(each).text);
    }
    if (status == TFOS_OK) {
        status = tfos__fail(error, TFOS_NOT_FOUND, "%s: expected a signature '%s', found %s", model->folder, name,
                            names.size > 0 ? (const char *)names.data : "none: export the model with signatures");
    }
    tfos__buffer_reset(&names);
    return status;
}

tfos_status tfos__saved_model_signature(const tfos__saved_model *model, const char *name, const tfos__signature **out,
                                        tfos_error *error)
{
    for (size_t i = 0; i < model->signature_count; i++) {
        if (strcmp(model->signatures[i].name, name) == 0) {
            *out = &model->signatures[i];
            return TFOS_OK;
        }
    }
    return fail_signature(model, name, error);
}

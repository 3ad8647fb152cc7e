/* Batches and schemas as Arrow C structs.
 *
 * A struct array owns one reference to its batch and the small ArrowArray structs of its children; buffers are the
 * batch's own. The consumer may move a child out (release set to NULL) and keep it beyond the parent, so every child
 * holds a reference as well. */
#include <stdio.h>
#include <stdlib.h>

#include "column/batch.h"

/* ---- schema ---- */

static void release_schema(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i]->release != NULL) {
            schema->children[i]->release(schema->children[i]);
        }
        free(schema->children[i]);
    }
    free(schema->children);
    free(schema->private_data); /* format, name and metadata in one block */
    schema->release = NULL;
}

/* Fills one schema node with copies of its strings and `children` empty children. */
static tfos_status make_schema(struct ArrowSchema *out, const char *format, const char *name, const void *metadata,
                               size_t metadata_bytes, int64_t children, tfos_error *error)
{
    size_t format_bytes = strlen(format) + 1;
    size_t name_bytes = strlen(name) + 1;
    char *block = malloc(format_bytes + name_bytes + metadata_bytes);
    struct ArrowSchema **nodes = calloc((size_t)children + 1, sizeof *nodes);
    if (block == NULL || nodes == NULL) {
        free(block);
        free(nodes);
        return tfos__fail_memory(error, format_bytes + name_bytes + metadata_bytes);
    }
    memcpy(block, format, format_bytes);
    memcpy(block + format_bytes, name, name_bytes);
    if (metadata_bytes > 0) {
        memcpy(block + format_bytes + name_bytes, metadata, metadata_bytes);
    }
    *out = (struct ArrowSchema){.format = block,
                                .name = block + format_bytes,
                                .metadata = metadata_bytes > 0 ? block + format_bytes + name_bytes : NULL,
                                .children = nodes,
                                .release = release_schema,
                                .private_data = block};
    for (int64_t i = 0; i < children; i++) {
        nodes[i] = calloc(1, sizeof **nodes);
        if (nodes[i] == NULL) {
            release_schema(out);
            return tfos__fail_memory(error, sizeof **nodes);
        }
        out->n_children = i + 1;
    }
    return TFOS_OK;
}

/* Arrow's metadata: number of pairs, then length and bytes of each key and value. */
static size_t feature_list_metadata(uint8_t *out)
{
    static const char key[] = TFOS__ARROW_FEATURE_LIST_KEY;
    uint32_t key_bytes = sizeof key - 1;
    tfos__store_u32(out, 1);
    tfos__store_u32(out + 4, key_bytes);
    memcpy(out + 8, key, key_bytes);
    tfos__store_u32(out + 8 + key_bytes, 1);
    out[12 + key_bytes] = '1';
    return 13 + key_bytes;
}

/* The levels of a field from the outside in: 0 the feature list if it is one, then the list if it is one, then the
 * value. */
static tfos_status make_level(struct ArrowSchema *out, const tfos_field *field, int level, const char *name,
                              tfos_error *error)
{
    uint8_t metadata[64];
    char format[32];
    bool outer = level == 0 && field->feature_list;
    bool list = outer || (level <= (field->feature_list ? 1 : 0) && field->shape != TFOS_SHAPE_SCALAR);
    if (!list) {
        snprintf(format, sizeof format, "%s", tfos__type_format(field->type));
    } else if (outer || field->shape == TFOS_SHAPE_RAGGED) {
        snprintf(format, sizeof format, "+l");
    } else {
        snprintf(format, sizeof format, "+w:%d", (int)field->length);
    }
    size_t metadata_bytes = outer ? feature_list_metadata(metadata) : 0;
    TFOS_TRY(make_schema(out, format, name, metadata, metadata_bytes, list ? 1 : 0, error));
    out->flags = level > 0 || field->nullable ? ARROW_FLAG_NULLABLE : 0;
    if (list) {
        tfos_status status = make_level(out->children[0], field, level + 1, "item", error);
        if (status != TFOS_OK) {
            release_schema(out);
            return status;
        }
    }
    return TFOS_OK;
}

tfos_status tfos_schema_export(const tfos_schema *schema, struct ArrowSchema *out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(schema);
    struct ArrowSchema root;
    TFOS_TRY(make_schema(&root, "+s", "", NULL, 0, (int64_t)count, error));
    for (size_t i = 0; i < count; i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        tfos_status status = make_level(root.children[i], field, 0, field->name, error);
        if (status != TFOS_OK) {
            release_schema(&root);
            return status;
        }
    }
    *out = root;
    return TFOS_OK;
}

/* ---- array ---- */

static void release_array(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i]->release != NULL) {
            array->children[i]->release(array->children[i]);
        }
        free(array->children[i]);
    }
    free(array->children);
    free(array->buffers);
    tfos_batch_free(array->private_data);
    array->release = NULL;
}

static tfos_status make_array(struct ArrowArray *out, tfos_batch *batch, int64_t buffers, int64_t children,
                              tfos_error *error)
{
    *out = (struct ArrowArray){.n_buffers = buffers, .release = release_array};
    out->private_data = tfos_batch_retain(batch);
    out->buffers = calloc((size_t)buffers + 1, sizeof *out->buffers);
    out->children = calloc((size_t)children + 1, sizeof *out->children);
    if (out->buffers == NULL || out->children == NULL) {
        release_array(out);
        return tfos__fail_memory(error, sizeof *out);
    }
    for (int64_t i = 0; i < children; i++) {
        out->children[i] = calloc(1, sizeof *out->children[i]);
        if (out->children[i] == NULL) {
            release_array(out);
            return tfos__fail_memory(error, sizeof *out);
        }
        out->n_children = i + 1;
    }
    return TFOS_OK;
}

static tfos_status make_vector(struct ArrowArray *out, tfos_batch *batch, const tfos_vector *vector, tfos_error *error)
{
    static const int64_t buffers_of[] = {
        [TFOS_LAYOUT_VALUES] = 2, [TFOS_LAYOUT_BYTES] = 3, [TFOS_LAYOUT_LIST] = 2, [TFOS_LAYOUT_FIXED_LIST] = 1};
    TFOS_TRY(make_array(out, batch, buffers_of[vector->layout], vector->child != NULL ? 1 : 0, error));
    out->length = vector->length;
    out->null_count = vector->null_count;
    out->buffers[0] = vector->validity;
    switch (vector->layout) {
    case TFOS_LAYOUT_VALUES:
        out->buffers[1] = vector->data;
        break;
    case TFOS_LAYOUT_BYTES:
        out->buffers[1] = vector->offsets;
        out->buffers[2] = vector->data;
        break;
    case TFOS_LAYOUT_LIST:
        out->buffers[1] = vector->offsets;
        break;
    case TFOS_LAYOUT_FIXED_LIST:
        break;
    }
    if (vector->child != NULL) {
        tfos_status status = make_vector(out->children[0], batch, vector->child, error);
        if (status != TFOS_OK) {
            release_array(out);
            return status;
        }
    }
    return TFOS_OK;
}

tfos_status tfos_batch_export(tfos_batch *batch, struct ArrowArray *array, struct ArrowSchema *schema,
                              tfos_error *error)
{
    size_t count = tfos_schema_field_count(tfos_batch_schema(batch));
    struct ArrowArray root;
    TFOS_TRY(make_array(&root, batch, 1, (int64_t)count, error));
    root.length = tfos_batch_rows(batch);
    tfos_status status = TFOS_OK;
    for (size_t i = 0; i < count && status == TFOS_OK; i++) {
        status = make_vector(root.children[i], batch, tfos_batch_column(batch, i), error);
    }
    if (status == TFOS_OK && schema != NULL) {
        status = tfos_schema_export(tfos_batch_schema(batch), schema, error);
    }
    if (status != TFOS_OK) {
        release_array(&root);
        return status;
    }
    *array = root;
    return TFOS_OK;
}

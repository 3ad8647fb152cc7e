/* Rows of files: columns are chosen and declared before the first is read, and kept ones put in front of results. */
#include "inference/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "column/schema.h"

void tfos__inference_rows_free(tfos__inference_rows *rows)
{
    if (rows != NULL) {
        tfos__binding_free(rows->binding);
        tfos_schema_free(rows->read);
        tfos_schema_free(rows->written);
        free(rows->kept);
        free(rows);
    }
}

/* ---- schemas ---- */

static tfos_status add_kept(tfos__inference_rows *rows, const tfos__inference_wish *wish, tfos_error *error)
{
    rows->kept = calloc(wish->kept_count + 1, sizeof *rows->kept);
    if (rows->kept == NULL) {
        return tfos__fail_memory(error, wish->kept_count * sizeof *rows->kept);
    }
    for (size_t i = 0; i < wish->kept_count; i++) {
        const char *name = wish->kept[i];
        if (tfos_schema_find(rows->binding->results, name) >= 0) {
            return tfos__fail(error, TFOS_MISMATCH,
                              "the column '%s' is to be kept, and is one of the results, too: give the result another "
                              "name (--outputs TENSOR=COLUMN)",
                              tfos__printable_text(name).text);
        }
        rows->kept[i] = (size_t)tfos_schema_find(rows->read, name);
        TFOS_TRY(tfos_schema_add(rows->written, tfos_schema_field(rows->read, rows->kept[i]), error));
        rows->kept_count++;
    }
    return TFOS_OK;
}

static tfos_status add_results(tfos__inference_rows *rows, bool text, tfos_error *error)
{
    const tfos_schema *results = rows->binding->results;
    for (size_t i = 0; i < tfos_schema_field_count(results); i++) {
        tfos_field field = *tfos_schema_field(results, i);
        field.type = text && field.type == TFOS_TYPE_BINARY ? TFOS_TYPE_STRING : field.type;
        TFOS_TRY(tfos_schema_add(rows->written, &field, error));
    }
    return TFOS_OK;
}

static bool has_lists(const tfos_schema *schema)
{
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        if (tfos_schema_field(schema, i)->feature_list) {
            return true;
        }
    }
    return false;
}

static tfos_status make(tfos__inference_rows *rows, const tfos__saved_model *model, const tfos__inference_wish *wish,
                        const tfos_schema *data, tfos_error *error)
{
    TFOS_TRY(tfos__binding_declare(model, wish->order, data, wish->kept, wish->kept_count, &rows->read, error));
    TFOS_TRY(tfos__binding_new(model, wish->order, rows->read, &rows->binding, error));
    bool lists = has_lists(rows->binding->results);
    for (size_t i = 0; i < wish->kept_count; i++) {
        lists =
            lists || tfos_schema_field(rows->read, (size_t)tfos_schema_find(rows->read, wish->kept[i]))->feature_list;
    }
    TFOS_TRY(tfos_schema_new(lists ? TFOS_RECORD_SEQUENCE : TFOS_RECORD_EXAMPLE, &rows->written, error));
    TFOS_TRY(add_kept(rows, wish, error));
    return add_results(rows, wish->text, error);
}

tfos_status tfos__inference_rows_new(const tfos__saved_model *model, const tfos__inference_wish *wish,
                                     const tfos_schema *data, tfos__inference_rows **out, tfos_error *error)
{
    tfos__inference_rows *rows = calloc(1, sizeof *rows);
    if (rows == NULL) {
        return tfos__fail_memory(error, sizeof *rows);
    }
    tfos_status status = make(rows, model, wish, data, error);
    if (status != TFOS_OK) {
        tfos__inference_rows_free(rows);
        return status;
    }
    *out = rows;
    return TFOS_OK;
}

/* ---- batches ---- */

enum { LEVELS = 3 }; /* lists of lists of values */

/* The column with values of another type, all levels of it. */
static const tfos_vector *retype(const tfos_vector *column, tfos_type type, tfos_vector levels[LEVELS])
{
    int level = 0;
    for (const tfos_vector *each = column; each != NULL; each = each->child) {
        levels[level] = *each;
        levels[level].type = type;
        levels[level].child = each->child != NULL ? &levels[level + 1] : NULL;
        level++;
    }
    return levels;
}

tfos_status tfos__inference_rows_join(const tfos__inference_rows *rows, const tfos_batch *read, tfos_batch *results,
                                      tfos_batch **out, tfos_error *error)
{
    if (rows->kept_count == 0 && tfos_schema_equal(rows->written, rows->binding->results)) {
        *out = tfos_batch_retain(results);
        return TFOS_OK;
    }
    size_t count = tfos_schema_field_count(rows->written);
    tfos_vector *columns = calloc(count + 1, sizeof *columns);
    tfos_vector(*levels)[LEVELS] = calloc(count + 1, sizeof *levels);
    if (columns == NULL || levels == NULL) {
        free(columns);
        free(levels);
        return tfos__fail_memory(error, count * sizeof *levels);
    }
    for (size_t i = 0; i < count; i++) {
        const tfos_vector *column = i < rows->kept_count ? tfos_batch_column(read, rows->kept[i])
                                                         : tfos_batch_column(results, i - rows->kept_count);
        columns[i] = *retype(column, tfos_schema_field(rows->written, i)->type, levels[i]);
    }
    tfos_status status = tfos_batch_new(rows->written, columns, tfos_batch_rows(results), out, error);
    free(columns);
    free(levels);
    if (status == TFOS_ENCODING) {
        tfos__error_prefix(error, "files of text have text in UTF-8, and TFRecords any bytes (--to tfrecord)");
    }
    return status;
}

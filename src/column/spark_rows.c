/* Spark's rows to batches.
 *
 * Rows come as columns where Spark has them so (spark_batch.c). Otherwise they come in blocks, each with its size in
 * front, because one crossing from the JVM for many rows costs less than one for each. A block is taken apart column by
 * column: the type of a column is looked at once for many rows, and what its loop touches stays in the cache.
 *
 * The length of a list that nobody declared is that of the first batch, if all of its lists have the same one. So the
 * first batch is built with such lists as ragged ones, and when it is taken their values move, without being copied, to
 * one with fixed lists. */
#include <assert.h>
#include <stdlib.h>

#include "base/choice.h"
#include "column/batch.h"
#include "column/spark_batch.h"
#include "column/spark_limit.h"
#include "column/spark_row.h"

enum {
    ROWS_AT_A_TIME = 1024,
    BATCH_BYTES = 1 << 20, /* a batch is full with as much … */
    BATCH_ROWS = 1 << 16,  /* … or as many */
    POOL_BATCHES = 2,
    SIZE_BYTES = 8, /* in front of each row */
};

struct tfos_spark_rows {
    tfos__spark_columns columns;
    tfos_schema *schema;
    tfos__batch_pool *pool; /* NULL until the first batch has shown the lengths of open lists */
    tfos_batch *batch;      /* being built, or NULL */
    int64_t rows;           /* in it */
    size_t bytes;           /* in it */
    int64_t first;          /* number of its first row in the partition */
    bool failed;
    int64_t lane_bytes; /* that a row has room in; 0: nobody has said so */
    uint64_t *nulls;    /* for each 64 columns: which of them are null in one of the rows at hand */
    tfos__spark_part part[ROWS_AT_A_TIME];
};

static bool any_open(const tfos_spark_rows *rows)
{
    for (size_t i = 0; i < rows->columns.count; i++) {
        if (rows->columns.at[i].open) {
            return true;
        }
    }
    return false;
}

tfos_status tfos_spark_rows_new(const char *description, size_t bytes, tfos_spark_rows **out, tfos_error *error)
{
    tfos_spark_rows *rows = calloc(1, sizeof *rows);
    if (rows == NULL) {
        return tfos__fail_memory(error, sizeof *rows);
    }
    tfos_status status = tfos__spark_columns_parse(description, bytes, &rows->columns, error);
    if (status == TFOS_OK) {
        status = tfos__spark_columns_schema(&rows->columns, &rows->schema, error);
    }
    size_t null_bytes = tfos__spark_null_bytes(rows->columns.count);
    if (status == TFOS_OK && (rows->nulls = malloc(null_bytes)) == NULL) {
        status = tfos__fail_memory(error, null_bytes);
    }
    if (status == TFOS_OK && !any_open(rows)) {
        status = tfos__batch_pool_new(rows->schema, POOL_BATCHES, &rows->pool, error);
    }
    if (status != TFOS_OK) {
        tfos_spark_rows_free(rows);
        return status;
    }
    *out = rows;
    return TFOS_OK;
}

void tfos_spark_rows_free(tfos_spark_rows *rows)
{
    if (rows == NULL) {
        return;
    }
    tfos_batch_free(rows->batch);
    tfos__batch_pool_free(rows->pool);
    tfos_schema_free(rows->schema);
    tfos__spark_columns_reset(&rows->columns);
    free(rows->nulls);
    free(rows);
}

const tfos_schema *tfos_spark_rows_schema(const tfos_spark_rows *rows)
{
    return rows->schema;
}

int64_t tfos_spark_rows_count(const tfos_spark_rows *rows)
{
    return rows->rows;
}

bool tfos_spark_rows_full(const tfos_spark_rows *rows)
{
    return rows->rows >= BATCH_ROWS || rows->bytes >= BATCH_BYTES;
}

void tfos_spark_rows_skip(tfos_spark_rows *rows, int64_t count)
{
    assert(count >= 0 && rows->rows == 0);
    rows->first += count;
}

/* ---- limits ---- */

void tfos__spark_rows_limit(tfos_spark_rows *rows, int64_t lane_bytes)
{
    rows->lane_bytes = lane_bytes;
}

static tfos_status refuse(const tfos_spark_rows *rows, size_t column, int64_t column_bytes, int64_t bytes,
                          tfos_error *error)
{
    return tfos__large_row_fail(&(tfos__large_row){.row = (uint64_t)(rows->first + rows->rows),
                                                   .bytes = bytes,
                                                   .column = rows->columns.at[column].field.name,
                                                   .column_bytes = column_bytes,
                                                   .lane_bytes = rows->lane_bytes},
                                error);
}

tfos_status tfos_spark_rows_check(const tfos_spark_rows *rows, const void *head, tfos_error *error)
{
    const uint8_t *slots = (const uint8_t *)head + tfos__spark_null_bytes(rows->columns.count);
    size_t largest = 0;
    int64_t most = 0;
    int64_t all = 0;
    for (size_t i = 0; i < rows->columns.count; i++) {
        bool null = (tfos__load_u64((const uint8_t *)head + i / 64 * 8) >> (i % 64) & 1) != 0;
        int64_t size = (int64_t)(tfos__load_u64(slots + i * 8) & UINT32_MAX); /* in the lower half; its place above */
        int64_t least = null ? 0 : tfos__spark_row_least(&rows->columns.at[i], size);
        all += least;
        largest = least > most ? i : largest;
        most = tfos__max_i64(most, least);
    }
    return rows->lane_bytes == 0 || all <= rows->lane_bytes ? TFOS_OK : refuse(rows, largest, most, all, error);
}

tfos_status tfos_spark_rows_refuse(const tfos_spark_rows *rows, size_t index, int64_t bytes, tfos_error *error)
{
    assert(index < rows->columns.count);
    return refuse(rows, index, bytes, bytes, error);
}

/* ---- append ---- */

/* How many rows may be appended before the size of the batch is looked at again. A sparse vector of few bytes may stand
 * for any number of values, and so may the default of a fixed list. */
static size_t rows_at_a_time(const tfos_spark_rows *rows)
{
    int64_t row_bytes = 1;
    for (size_t i = 0; i < rows->columns.count; i++) {
        const tfos__spark_column *column = &rows->columns.at[i];
        if (column->ml && column->field.shape != TFOS_SHAPE_FIXED && !column->shown) {
            return 1;
        }
        row_bytes += (int64_t)column->field.length * 8;
    }
    int64_t count = tfos__min_i64((int64_t)BATCH_BYTES / row_bytes, BATCH_ROWS - rows->rows);
    return (size_t)tfos__max_i64(1, tfos__min_i64(count, ROWS_AT_A_TIME));
}

/* Finds up to `most` rows at the beginning of a block: where they are, and which columns have nulls. */
static tfos_status find_rows(tfos_spark_rows *rows, const uint8_t *block, size_t bytes, size_t most, size_t *count,
                             size_t *used, tfos_error *error)
{
    size_t null_bytes = tfos__spark_null_bytes(rows->columns.count);
    size_t least = null_bytes + rows->columns.count * 8;
    size_t at = 0;
    size_t found = 0;
    memset(rows->nulls, 0, null_bytes);
    for (; found < most && at < bytes; found++) {
        size_t left = bytes - at;
        uint64_t size = left >= SIZE_BYTES ? tfos__load_u64(block + at) : 0;
        if (size < least || size > left - SIZE_BYTES) {
            return tfos__fail(
                error, TFOS_CORRUPT,
                "row %lld of the partition: a row of %zu columns has at least %zu bytes, and %zu are left "
                "in its block; its size is said to be %llu",
                (long long)(rows->first + rows->rows + (int64_t)found), rows->columns.count, least, left,
                (unsigned long long)size);
        }
        const uint8_t *row = block + at + SIZE_BYTES;
        rows->part[found] = (tfos__spark_part){.at = row, .bytes = (size_t)size};
        for (size_t i = 0; i < null_bytes / 8; i++) {
            rows->nulls[i] |= tfos__load_u64(row + i * 8);
        }
        at += SIZE_BYTES + (size_t)size;
    }
    *count = found;
    *used = at;
    return TFOS_OK;
}

/* So many rows are now in each column. */
static void add_rows(tfos_spark_rows *rows, int64_t count)
{
    rows->rows += count;
    rows->bytes = 0;
    for (size_t i = 0; i < rows->columns.count; i++) {
        for (tfos__vector *level = tfos__batch_vector(rows->batch, i); level != NULL; level = level->child) {
            rows->bytes += level->offsets.size + level->data.size;
        }
    }
}

static tfos_status begin_append(tfos_spark_rows *rows, tfos_error *error)
{
    if (rows->failed) {
        return tfos__fail(error, TFOS_INVALID, "an earlier row could not be taken: no more rows can follow it");
    }
    if (rows->batch != NULL) {
        return TFOS_OK;
    }
    return rows->pool != NULL ? tfos__batch_take(rows->pool, &rows->batch, error)
                              : tfos__batch_new(rows->schema, &rows->batch, error);
}

static tfos_status append_parts(tfos_spark_rows *rows, size_t count, tfos_error *error)
{
    for (size_t i = 0; i < rows->columns.count; i++) {
        bool nulls = (rows->nulls[i / 64] >> (i % 64) & 1) != 0;
        TFOS_TRY(tfos__spark_column_append(&rows->columns.at[i], i, rows->columns.count, rows->part, count, nulls,
                                           rows->first + rows->rows, tfos__batch_vector(rows->batch, i), error));
    }
    add_rows(rows, (int64_t)count);
    return TFOS_OK;
}

static tfos_status append_block(tfos_spark_rows *rows, const uint8_t *block, size_t bytes, size_t *used,
                                tfos_error *error)
{
    TFOS_TRY(begin_append(rows, error));
    size_t at = 0;
    while (at < bytes && !tfos_spark_rows_full(rows)) {
        size_t count = 0;
        size_t step = 0;
        TFOS_TRY(find_rows(rows, block + at, bytes - at, rows_at_a_time(rows), &count, &step, error));
        TFOS_TRY(append_parts(rows, count, error));
        at += step;
    }
    *used = at;
    return TFOS_OK;
}

tfos_status tfos_spark_rows_append(tfos_spark_rows *rows, const void *block, size_t bytes, size_t *used,
                                   tfos_error *error)
{
    size_t taken = 0;
    tfos_status status = append_block(rows, block, bytes, &taken, error);
    rows->failed = status != TFOS_OK;
    if (status == TFOS_OK) {
        *used = taken;
    }
    return status;
}

/* ---- append columns ---- */

static const char *const value_names[] = {
#define NAME(name, text, width) text,
    TFOS_SPARK_VALUE_MAP(NAME)
#undef NAME
        NULL};
TFOS__CHOICE_FUNCTIONS(spark_value, "value of Spark's", value_names)

bool tfos_spark_rows_form(const tfos_spark_rows *rows, size_t index, tfos_spark_form *out)
{
    static const tfos_spark_value values[] = {
        [TFOS__SPARK_BYTE] = TFOS_SPARK_VALUE_BYTE,       [TFOS__SPARK_SHORT] = TFOS_SPARK_VALUE_SHORT,
        [TFOS__SPARK_INT] = TFOS_SPARK_VALUE_INT,         [TFOS__SPARK_LONG] = TFOS_SPARK_VALUE_LONG,
        [TFOS__SPARK_FLOAT] = TFOS_SPARK_VALUE_FLOAT,     [TFOS__SPARK_DOUBLE] = TFOS_SPARK_VALUE_DOUBLE,
        [TFOS__SPARK_BOOLEAN] = TFOS_SPARK_VALUE_BOOLEAN, [TFOS__SPARK_BYTES] = TFOS_SPARK_VALUE_BYTES,
        [TFOS__SPARK_DECIMAL] = TFOS_SPARK_VALUE_LONG,    [TFOS__SPARK_BIG_DECIMAL] = TFOS_SPARK_VALUE_BYTES,
    };
    assert(index < rows->columns.count);
    const tfos__spark_column *column = &rows->columns.at[index];
    if (column->ml) {
        return false;
    }
    *out = (tfos_spark_form){
        .value = values[column->kind], .lists = column->lists, .precision = column->precision, .scale = column->scale};
    out->row_bytes = rows->lane_bytes > 0 ? tfos__spark_vector_most(column, rows->lane_bytes) : INT64_MAX;
    return true;
}

static tfos_status check_vectors(tfos_spark_rows *rows, const tfos_spark_vector *columns, int64_t first, int64_t count,
                                 tfos_error *error)
{
    for (size_t i = 0; i < rows->columns.count; i++) {
        const tfos__spark_column *column = &rows->columns.at[i];
        if (column->ml) {
            return tfos__fail(error, TFOS_UNSUPPORTED, "column '%s': vectors of Spark ML come in rows",
                              tfos__printable_text(column->field.name).text);
        }
        TFOS_TRY(tfos__spark_vector_check(column, &columns[i], first, count, error));
    }
    return TFOS_OK;
}

/* How many rows may be appended at once: unlike a block, vectors may have any size. */
static int64_t vector_rows_at_a_time(const tfos_spark_rows *rows, const tfos_spark_vector *columns, int64_t first,
                                     int64_t count)
{
    count = tfos__min_i64(count, (int64_t)rows_at_a_time(rows));
    int64_t bytes;
    do {
        bytes = 0;
        for (size_t i = 0; i < rows->columns.count; i++) {
            bytes += tfos__spark_vector_bytes(&rows->columns.at[i], &columns[i], first, count);
        }
    } while (bytes > BATCH_BYTES && count > 1 && (count /= 2) > 0);
    return count;
}

static tfos_status append_vectors(tfos_spark_rows *rows, const tfos_spark_vector *columns, int64_t first, int64_t count,
                                  int64_t *used, tfos_error *error)
{
    TFOS_TRY(begin_append(rows, error));
    TFOS_TRY(check_vectors(rows, columns, first, count, error));
    int64_t at = 0;
    while (at < count && !tfos_spark_rows_full(rows)) {
        int64_t step = vector_rows_at_a_time(rows, columns, first + at, count - at);
        for (size_t i = 0; i < rows->columns.count; i++) {
            TFOS_TRY(tfos__spark_vector_append(&rows->columns.at[i], &columns[i], first + at, step,
                                               rows->first + rows->rows, tfos__batch_vector(rows->batch, i), error));
        }
        add_rows(rows, step);
        at += step;
    }
    *used = at;
    return TFOS_OK;
}

tfos_status tfos_spark_rows_append_columns(tfos_spark_rows *rows, const tfos_spark_vector *columns, int64_t first,
                                           int64_t count, int64_t *used, tfos_error *error)
{
    int64_t taken = 0;
    tfos_status status = append_vectors(rows, columns, first, count, &taken, error);
    rows->failed = status != TFOS_OK;
    if (status == TFOS_OK) {
        *used = taken;
    }
    return status;
}

/* ---- take ---- */

/* The length that all rows of a list have; -1 when they differ, or nothing is known about it. */
static int32_t common_length(tfos__vector *list)
{
    const int32_t *offsets = tfos__vector_offsets(list);
    int64_t rows = list->view.length;
    int32_t length = rows > 0 ? offsets[1] : 0;
    for (int64_t row = 1; row < rows; row++) {
        if (offsets[row + 1] - offsets[row] != length) {
            return -1;
        }
    }
    return length > 0 && length <= TFOS_SCHEMA_MAX_LENGTH ? length : -1;
}

/* Closes open lists by what the first batch shows. */
static void decide_lengths(tfos_spark_rows *rows)
{
    for (size_t i = 0; i < rows->columns.count; i++) {
        tfos__spark_column *column = &rows->columns.at[i];
        if (!column->open) {
            continue;
        }
        tfos__vector *list = tfos__batch_vector(rows->batch, i);
        int32_t length = common_length(column->lists > 1 ? list->child : list);
        column->open = false;
        column->shown = length >= 0;
        column->field.shape = length >= 0 ? TFOS_SHAPE_FIXED : TFOS_SHAPE_RAGGED;
        column->field.length = length >= 0 ? length : 0;
    }
}

static void swap_buffers(tfos__buffer *a, tfos__buffer *b)
{
    tfos__buffer kept = *a;
    *a = *b;
    *b = kept;
}

/* The rows of a vector to an empty one, whose levels differ at most by lists being fixed. */
static void move_rows(tfos__vector *to, tfos__vector *from)
{
    for (; to != NULL; to = to->child, from = from->child) {
        to->view.length = from->view.length;
        if (to->view.layout == from->view.layout) {
            swap_buffers(&to->offsets, &from->offsets);
            swap_buffers(&to->data, &from->data);
        }
    }
}

static tfos_status close_lists(tfos_spark_rows *rows, tfos_error *error)
{
    decide_lengths(rows);
    tfos_schema *schema;
    TFOS_TRY(tfos__spark_columns_schema(&rows->columns, &schema, error));
    tfos_schema_free(rows->schema);
    rows->schema = schema;
    TFOS_TRY(tfos__batch_pool_new(schema, POOL_BATCHES, &rows->pool, error));
    tfos_batch *batch;
    TFOS_TRY(tfos__batch_take(rows->pool, &batch, error));
    for (size_t i = 0; i < rows->columns.count; i++) {
        move_rows(tfos__batch_vector(batch, i), tfos__batch_vector(rows->batch, i));
    }
    tfos_batch_free(rows->batch);
    rows->batch = batch;
    return TFOS_OK;
}

tfos_status tfos_spark_rows_take(tfos_spark_rows *rows, tfos_batch **out, tfos_error *error)
{
    if (rows->failed) {
        return tfos__fail(error, TFOS_INVALID, "an earlier row could not be taken: its batch is not whole");
    }
    if (rows->rows == 0) {
        *out = NULL;
        return TFOS_OK;
    }
    tfos_status status = rows->pool == NULL ? close_lists(rows, error) : TFOS_OK;
    if (status == TFOS_OK) {
        status = tfos__batch_finish(rows->batch, rows->rows, error);
    }
    if (status != TFOS_OK) {
        rows->failed = true;
        return status;
    }
    *out = rows->batch;
    rows->batch = NULL;
    rows->first += rows->rows;
    rows->rows = 0;
    rows->bytes = 0;
    return TFOS_OK;
}

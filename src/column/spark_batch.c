/* Values of Spark's ColumnarBatches.
 *
 * A column comes as Arrow would have it, but for its nulls, which are a byte each:
 *
 *   numbers   values
 *   bytes     offsets ──► values
 *   lists     offsets ──► child: numbers, bytes or, once more, lists
 *
 * Values between two nulls are appended at once. Like rows, vectors are made by a JVM that may hand over anything: they
 * are checked before anything is read. */
#include "column/spark_batch.h"

#include "column/spark_decimal.h"

/* ---- checks ---- */

static tfos_status fail_vector(const tfos__spark_column *column, const char *what, tfos_error *error)
{
    return tfos__fail(error, TFOS_CORRUPT, "column '%s': a vector of Spark's is damaged: %s",
                      tfos__printable_text(column->field.name).text, what);
}

static bool has_offsets(const tfos__spark_column *column, int lists)
{
    return lists > 0 || column->kind == TFOS__SPARK_BYTES || column->kind == TFOS__SPARK_BIG_DECIMAL;
}

tfos_status tfos__spark_vector_check(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t first,
                                     int64_t count, tfos_error *error)
{
    for (int lists = column->lists; lists >= 0; lists--) {
        if (first < 0 || count < 0 || first > from->length || count > from->length - first) {
            return fail_vector(column, "it has fewer values than are to be read", error);
        }
        if (count == 0) {
            return TFOS_OK;
        }
        if (lists == 0 && from->values == NULL) {
            return fail_vector(column, "it has no values", error);
        }
        if (!has_offsets(column, lists)) {
            return TFOS_OK;
        }
        if (from->offsets == NULL || (lists > 0 && from->child == NULL)) {
            return fail_vector(column, "it lacks a level", error);
        }
        const int32_t *offsets = from->offsets + first;
        for (int64_t i = 0; i < count; i++) {
            if (offsets[i] < 0 || offsets[i + 1] < offsets[i]) {
                return fail_vector(column, "its offsets do not rise", error);
            }
        }
        first = offsets[0];
        count = offsets[count] - first;
        from = from->child;
    }
    return TFOS_OK;
}

int64_t tfos__spark_vector_bytes(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t first,
                                 int64_t count)
{
    int64_t bytes = 0;
    for (int lists = column->lists; has_offsets(column, lists) && count > 0; lists--) {
        int64_t begin = from->offsets[first];
        count = from->offsets[first + count] - begin;
        first = begin;
        if (lists == 0) {
            return bytes + count;
        }
        bytes += count * 8;
        from = from->child;
    }
    return bytes;
}

/* ---- values ---- */

static tfos_status append_value(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t at,
                                tfos__vector *to, tfos_error *error)
{
    const uint8_t *values = from->values;
    if (column->kind == TFOS__SPARK_DECIMAL) {
        return tfos__decimal_push(to, (int64_t)tfos__load_u64(values + at * 8), column->scale, error);
    }
    const uint8_t *begin = values + from->offsets[at];
    size_t bytes = (size_t)(from->offsets[at + 1] - from->offsets[at]);
    if (column->kind == TFOS__SPARK_BYTES) {
        return tfos__vector_push_bytes(to, begin, bytes, error);
    }
    tfos__int128 unscaled;
    if (!tfos__decimal_read(begin, bytes, &unscaled)) {
        return tfos__fail(error, TFOS_CORRUPT, "a decimal has 1 to %zu bytes, found %zu", sizeof unscaled, bytes);
    }
    return tfos__decimal_push(to, unscaled, column->scale, error);
}

/* Appends values that are not null. *done is how many, also after a failure. */
static tfos_status append_run(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t first,
                              int64_t count, tfos__vector *to, int64_t *done, tfos_error *error)
{
    if (tfos__spark_is_number(column)) {
        size_t appended = 0;
        tfos__spark_source run = {.base = (const uint8_t *)from->values + first * column->width};
        tfos_status status = tfos__spark_numbers_append(column, &run, (size_t)count, to, &appended, error);
        *done = (int64_t)appended;
        return status;
    }
    for (*done = 0; *done < count; ++*done) {
        TFOS_TRY(append_value(column, from, first + *done, to, error));
    }
    return TFOS_OK;
}

/* How many of the values, from the first on, are not null. */
static int64_t run_length(const tfos_spark_vector *from, int64_t first, int64_t count)
{
    if (from->nulls == NULL) {
        return count;
    }
    int64_t length = 0;
    while (length < count && from->nulls[first + length] == 0) {
        length++;
    }
    return length;
}

typedef tfos_status append_null(const tfos__spark_column *column, tfos__vector *to, tfos_error *error);

/* Appends values, with `null` for each that is null. *done is how many, also after a failure. */
static tfos_status append_values(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t first,
                                 int64_t count, append_null *null, tfos__vector *to, int64_t *done, tfos_error *error)
{
    *done = 0;
    while (*done < count) {
        int64_t run = run_length(from, first + *done, count - *done);
        int64_t appended = 0;
        tfos_status status = append_run(column, from, first + *done, run, to, &appended, error);
        *done += appended;
        TFOS_TRY(status);
        if (*done < count) {
            TFOS_TRY(null(column, to, error));
            ++*done;
        }
    }
    return TFOS_OK;
}

/* ---- lists ---- */

static tfos_status append_list(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t at,
                               tfos__vector *to, tfos_error *error)
{
    int64_t done;
    int64_t begin = from->offsets[at];
    int64_t count = from->offsets[at + 1] - begin;
    TFOS_TRY(append_values(column, from->child, begin, count, tfos__spark_null_value_append, to->child, &done, error));
    return tfos__spark_list_end(column, (size_t)count, to, error);
}

static tfos_status append_lists(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t at,
                                tfos__vector *to, tfos_error *error)
{
    const tfos_spark_vector *child = from->child;
    for (int64_t i = from->offsets[at]; i < from->offsets[at + 1]; i++) {
        bool null = child->nulls != NULL && child->nulls[i] != 0;
        TFOS_TRY(null ? tfos__spark_null_list_append(column, to->child, error)
                      : append_list(column, child, i, to->child, error));
    }
    return tfos__vector_push_list(to, error);
}

static tfos_status append_row(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t at,
                              tfos__vector *to, tfos_error *error)
{
    if (from->nulls != NULL && from->nulls[at] != 0) {
        return tfos__spark_null_append(column, to, error);
    }
    return column->lists == 1 ? append_list(column, from, at, to, error) : append_lists(column, from, at, to, error);
}

tfos_status tfos__spark_vector_append(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t first,
                                      int64_t count, int64_t row, tfos__vector *to, tfos_error *error)
{
    tfos_status status = TFOS_OK;
    int64_t done = 0;
    if (column->lists == 0) {
        status = append_values(column, from, first, count, tfos__spark_null_append, to, &done, error);
    }
    for (; column->lists > 0 && status == TFOS_OK && done < count; done += status == TFOS_OK) {
        status = append_row(column, from, first + done, to, error);
    }
    return status == TFOS_OK ? TFOS_OK : tfos__spark_fail_at(column, row + done, status, error);
}

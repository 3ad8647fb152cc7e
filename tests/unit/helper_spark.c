/* Rows of Spark, made byte by byte. */
#include "helper_spark.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "column/spark_row.h"
#include "helper_records.h"
#include "helper_text.h"

/* ---- a writer of rows ---- */

static part *all_parts[256];
static size_t part_count;

part *spark_part(size_t zeros)
{
    part *made = calloc(1, sizeof *made);
    assert_non_null(made);
    assert_int_equal(tfos__buffer_reserve(made, zeros, NULL), TFOS_OK);
    if (zeros > 0) {
        memset(made->data, 0, zeros);
    }
    made->size = zeros;
    assert_true(part_count < 256);
    all_parts[part_count++] = made;
    return made;
}

int spark_free(void **state)
{
    (void)state;
    while (part_count > 0) {
        part *old = all_parts[--part_count];
        tfos__buffer_reset(old);
        free(old);
    }
    return 0;
}

/* Adds bytes to the variable part, padded to a word, and says in a slot where they are. */
void spark_put_bytes(part *to, size_t slot, const void *bytes, size_t count)
{
    static const uint8_t zeros[8];
    tfos__store_u64(to->data + slot, (uint64_t)to->size << 32 | count);
    assert_int_equal(tfos__buffer_append(to, bytes, count, NULL), TFOS_OK);
    assert_int_equal(tfos__buffer_append(to, zeros, (8 - count % 8) % 8, NULL), TFOS_OK);
}

void spark_put(part *to, size_t slot, const part *inner)
{
    spark_put_bytes(to, slot, inner->data, inner->size);
}

size_t spark_slot(size_t fields, size_t ordinal)
{
    return tfos__spark_null_bytes(fields) + ordinal * 8;
}

part *spark_row(size_t fields)
{
    return spark_part(tfos__spark_null_bytes(fields) + fields * 8);
}

void spark_set_null(part *row, size_t ordinal)
{
    tfos__bit_set(row->data, (int64_t)ordinal);
}

part *spark_array(size_t count, size_t width)
{
    part *array = spark_part((8 + tfos__spark_null_bytes(count) + count * width + 7) / 8 * 8);
    tfos__store_u64(array->data, count);
    return array;
}

size_t spark_element(size_t count, size_t width, size_t index)
{
    return 8 + tfos__spark_null_bytes(count) + index * width;
}

part *spark_values(size_t count, size_t width, const void *values)
{
    part *array = spark_array(count, width);
    if (count > 0) {
        memcpy(array->data + spark_element(count, width, 0), values, count * width);
    }
    return array;
}

void spark_put_long(part *row, size_t slot, int64_t value)
{
    tfos__store_u64(row->data + slot, (uint64_t)value);
}

void spark_put_double(part *row, size_t slot, double value)
{
    memcpy(row->data + slot, &value, sizeof value);
}

void spark_add_row(part *block, const part *row)
{
    uint64_t size = row->size;
    assert_int_equal(tfos__buffer_append(block, &size, sizeof size, NULL), TFOS_OK);
    assert_int_equal(tfos__buffer_append(block, row->data, row->size, NULL), TFOS_OK);
}

/* ---- what the tests ask ---- */

/* A description of columns: `fields` is a list of "name":type of Spark, `columns` what is declared. */
tfos_status spark_describe(const char *fields, const char *columns, tfos_spark_rows **out, tfos_error *error)
{
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"schema\": {\"type\": \"struct\", \"fields\": [%s]}", fields);
    snprintf(text + used, sizeof text - used, "%s%s}", columns[0] != '\0' ? ", \"columns\": " : "", columns);
    return tfos_spark_rows_new(text, strlen(text), out, error);
}

tfos_spark_rows *spark_rows_of(const char *fields, const char *columns)
{
    tfos_error error = {0};
    tfos_spark_rows *rows = NULL;
    tfos_status status = spark_describe(fields, columns, &rows, &error);
    if (status != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return rows;
}

void spark_append(tfos_spark_rows *rows, const part *block)
{
    tfos_error error = {0};
    size_t used = 0;
    tfos_status status = tfos_spark_rows_append(rows, block->data, block->size, &used, &error);
    if (status != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(used, block->size);
}

void spark_expect_batch(tfos_spark_rows *rows, const char *expected)
{
    tfos_batch *batch = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_spark_rows_take(rows, &batch, &error), TFOS_OK);
    assert_non_null(batch);
    tfos__buffer text = {0};
    helper_show_batch(batch, &text);
    char *found = helper_string(&text);
    helper_expect_text(found, expected);
    free(found);
    tfos__buffer_reset(&text);
    tfos_batch_free(batch);
}

void spark_expect_broken(tfos_spark_rows *rows, const tfos_error *error, tfos_status expected, const char *const *words)
{
    tfos_error later;
    tfos_batch *batch = NULL;
    assert_int_equal(error->status, expected);
    for (; *words != NULL; words++) {
        if (strstr(error->message, *words) == NULL) {
            fail_msg("no '%s' in: %s", *words, error->message);
        }
    }
    assert_int_equal(tfos_spark_rows_take(rows, &batch, &later), TFOS_INVALID);
    tfos_spark_rows_free(rows);
}

void spark_expect_failure(tfos_spark_rows *rows, const part *block, tfos_status expected, const char *const *words)
{
    tfos_error error = {0};
    size_t used = 77;
    assert_int_equal(tfos_spark_rows_append(rows, block->data, block->size, &used, &error), expected);
    assert_int_equal(used, 77);
    spark_expect_broken(rows, &error, expected, words);
}

/* ---- a column of every simple type ---- */

/* clang-format off */
const char *const spark_scalar_fields =
    SIMPLE("boolean", "boolean") ","
    SIMPLE("byte", "byte") ","
    SIMPLE("short", "short") ","
    SIMPLE("int", "integer") ","
    SIMPLE("long", "long") ","
    SIMPLE("float", "float") ","
    SIMPLE("double", "double") ","
    SIMPLE("string", "string") ","
    SIMPLE("binary", "binary") ","
    SIMPLE("date", "date") ","
    SIMPLE("time", "timestamp") ","
    SIMPLE("ntz", "timestamp_ntz");
/* clang-format on */
part *spark_scalar_row(int64_t number, const char *text)
{
    part *row = spark_row(SCALARS);
    float real = (float)number / 2;
    row->data[spark_slot(SCALARS, 0)] = number % 2 != 0;
    spark_put_long(row, spark_slot(SCALARS, 1), (uint8_t)-number); /* the bytes behind a value are not looked at */
    spark_put_long(row, spark_slot(SCALARS, 2), (uint16_t)(number * 100));
    spark_put_long(row, spark_slot(SCALARS, 3), (uint32_t)(number * -100000));
    spark_put_long(row, spark_slot(SCALARS, 4), number * 10000000000);
    memcpy(row->data + spark_slot(SCALARS, 5), &real, sizeof real);
    spark_put_double(row, spark_slot(SCALARS, 6), (double)number / 4);
    spark_put_bytes(row, spark_slot(SCALARS, 7), text, strlen(text));
    spark_put_bytes(row, spark_slot(SCALARS, 8), "\xff\x00\x01", 3);
    spark_put_long(row, spark_slot(SCALARS, 9), number);
    spark_put_long(row, spark_slot(SCALARS, 10), number * 1000000);
    spark_put_long(row, spark_slot(SCALARS, 11), -number);
    return row;
}

part *spark_lists_row(size_t count, const size_t *lengths)
{
    part *row = spark_row(1);
    part *outer = spark_array(count, 8);
    for (size_t i = 0; i < count; i++) {
        part *inner = spark_array(lengths[i], 4);
        for (size_t j = 0; j < lengths[i]; j++) {
            tfos__store_u32(inner->data + spark_element(lengths[i], 4, j), (uint32_t)(10 * i + j));
        }
        spark_put(outer, spark_element(count, 8, i), inner);
    }
    spark_put(row, spark_slot(1, 0), outer);
    return row;
}

part *spark_ml_vector(int type, int32_t size, const part *indices, const part *values)
{
    part *vector = spark_row(4);
    vector->data[spark_slot(4, 0)] = (uint8_t)type;
    tfos__store_u32(vector->data + spark_slot(4, 1), (uint32_t)size);
    if (indices != NULL) {
        spark_put(vector, spark_slot(4, 2), indices);
    } else {
        spark_set_null(vector, 1);
        spark_set_null(vector, 2);
    }
    spark_put(vector, spark_slot(4, 3), values);
    return vector;
}

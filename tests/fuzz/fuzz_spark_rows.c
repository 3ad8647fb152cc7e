/* Spark's rows: a description of columns, a NUL, and a block. Whatever they say is refused with a message, or gives a
 * batch whose columns have as many rows as were appended. */
#include "fuzz_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_failure(const tfos_error *error)
{
    size_t length = strlen(error->message);
    require(error->status != TFOS_OK && length > 0, "a failure without a message");
    require(tfos__utf8_valid_prefix(error->message, length) == length, "a message that is no text");
}

static void check_batch(tfos_spark_rows *rows)
{
    tfos_error error = {0};
    tfos_batch *batch = NULL;
    int64_t count = tfos_spark_rows_count(rows);
    if (tfos_spark_rows_take(rows, &batch, &error) != TFOS_OK) {
        check_failure(&error);
        return;
    }
    require((batch != NULL) == (count > 0), "a batch without rows, or none with rows");
    for (size_t i = 0; batch != NULL && i < tfos_schema_field_count(tfos_batch_schema(batch)); i++) {
        require(tfos_batch_column(batch, i)->length == count, "a column with other rows than the batch");
        require(tfos_batch_column(batch, i)->null_count == 0, "a null");
    }
    tfos_batch_free(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    size_t text = strnlen((const char *)data, bytes);
    const uint8_t *block = text < bytes ? data + text + 1 : data + bytes;
    size_t left = (size_t)(data + bytes - block);
    tfos_spark_rows *rows = NULL;
    tfos_error error = {0};
    if (tfos_spark_rows_new((const char *)data, text, &rows, &error) != TFOS_OK) {
        check_failure(&error);
        return 0;
    }
    while (left > 0) {
        size_t used = 0;
        if (tfos_spark_rows_append(rows, block, left, &used, &error) != TFOS_OK) {
            check_failure(&error);
            break;
        }
        require(used > 0 && used <= left, "no row, or more than there are");
        require(used == left || tfos_spark_rows_full(rows), "it stopped for no reason");
        block += used;
        left -= used;
        check_batch(rows);
    }
    tfos_spark_rows_free(rows);
    return 0;
}

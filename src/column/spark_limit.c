/* How large a row is, from the sizes that Spark has written down. Bounds are on the safe side: a row that could be fed
 * is never refused here, and one that could not be, but was not found out, is when it is in its batch. */
#include "column/spark_limit.h"

#include <inttypes.h>

#include "base/status.h"
#include "column/schema.h"

/* Bits of a value in a batch; what has no width of its own is at least its offset. */
static int64_t bits_of(const tfos__spark_column *column)
{
    int width = tfos__type_width(column->field.type);
    return width < 0 ? 32 : width == 0 ? 1 : width * 8;
}

/* The least of a list, told by the most that Spark needs for a value of it:
 *
 *   array   8 bytes, a bit for each value, then values; those of any length are a slot of 8 bytes, and behind all slots
 *           their bytes, padded to 8
 *   vector  of Spark ML: for each value that is not 0 an index of 4 bytes and 8 more */
static int64_t list_least(const tfos__spark_column *column, int64_t bytes)
{
    enum { HEAD_BYTES = 64, SPARSE_BITS = 96, BIG_BITS = 8 * (8 + 16) };
    int64_t body = bytes > HEAD_BYTES ? bytes - HEAD_BYTES : 0;
    if (column->kind == TFOS__SPARK_BYTES) {
        return body / 4; /* an empty one is 8 bytes there and 4 here, one of a byte 16 and 5 */
    }
    int64_t value_bits = column->kind == TFOS__SPARK_BIG_DECIMAL ? BIG_BITS : (int64_t)column->width * 8;
    value_bits = column->ml ? SPARSE_BITS : value_bits + 1;
    return body * 8 / value_bits * bits_of(column) / 8;
}

int64_t tfos__spark_row_least(const tfos__spark_column *column, int64_t bytes)
{
    enum { INNER = 8 }; /* a list of one value inside a list, at most so many times what it is in a batch */
    switch (column->lists) {
    case 0:
        return column->kind == TFOS__SPARK_BYTES ? bytes : 0;
    case 1:
        return list_least(column, bytes);
    default:
        return bits_of(column) >= 32 ? list_least(column, bytes) / INNER : 0;
    }
}

int64_t tfos__spark_vector_most(const tfos__spark_column *column, int64_t most)
{
    enum { BIG_BYTES = 16 };
    if (column->kind == TFOS__SPARK_BYTES) {
        return most;
    }
    int64_t width = column->kind == TFOS__SPARK_BIG_DECIMAL ? BIG_BYTES : column->width;
    return most * 8 / bits_of(column) * width;
}

tfos_status tfos__large_row_fail(const tfos__large_row *row, tfos_error *error)
{
    return tfos__fail(error, TFOS_LIMIT,
                      "row %" PRIu64 " of the partition takes %" PRId64 " bytes, %" PRId64
                      " of them in column '%s': more than a lane has, %" PRId64
                      ". Set feed.lane_bytes (spark.tfos.feed.lane_bytes) to more",
                      row->row, row->bytes, row->column_bytes, tfos__printable_text(row->column).text, row->lane_bytes);
}

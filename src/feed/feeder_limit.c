/* Rows that have room in no lane, and never will have. */
#include "column/spark_limit.h"
#include "feed/feeder_state.h"

int64_t tfos__feeder_least_lane(const tfos_feeder *feeder)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < feeder->place_count; i++) {
        const tfos__place *place = &feeder->places[i];
        if (place->lane != NULL && !place->finished) {
            least = tfos__min_i64(least, (int64_t)tfos__lane_ring_bytes(place->lane));
        }
    }
    return least != INT64_MAX ? least : feeder->lane_bytes;
}

void tfos_spark_rows_set_feeder(tfos_spark_rows *rows, const tfos_feeder *feeder)
{
    tfos__spark_rows_limit(rows, tfos__feeder_least_lane(feeder));
}

tfos_status tfos__feeder_refuse_row(const tfos_feeder *feeder, const tfos_batch *batch, int64_t first, size_t bytes,
                                    tfos_error *error)
{
    const tfos_schema *schema = tfos_batch_schema(batch);
    tfos__large_row row = {
        .row = feeder->row, .bytes = (int64_t)bytes, .column = "", .lane_bytes = tfos__feeder_least_lane(feeder)};
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        int64_t column_bytes = (int64_t)tfos__entry_column_bytes(batch, i, first, 1);
        if (column_bytes > row.column_bytes) {
            row.column_bytes = column_bytes;
            row.column = tfos_schema_field(schema, i)->name;
        }
    }
    tfos_status status = tfos__large_row_fail(&row, error);
    tfos__feeder_locate(feeder, error);
    return status;
}

/* What sinks have in common: whose rows they take, and which are too large. */
#include "feed/sink.h"

#include <inttypes.h>

#include "base/status.h"
#include "column/spark_limit.h"
#include "feed/entry.h"

void tfos__sink_locate(const tfos__sink *sink, tfos_error *error)
{
    tfos__error_prefix(error, "partition %" PRIu64, sink->partition);
}

tfos_status tfos__sink_refuse_row(const tfos__sink *sink, const tfos_batch *batch, int64_t first, uint64_t row,
                                  size_t bytes, tfos_error *error)
{
    const tfos_schema *schema = tfos_batch_schema(batch);
    tfos__large_row large = {
        .row = row, .bytes = (int64_t)bytes, .column = "", .lane_bytes = sink->functions->least_lane(sink)};
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        int64_t column_bytes = (int64_t)tfos__entry_column_bytes(batch, i, first, 1);
        if (column_bytes > large.column_bytes) {
            large.column_bytes = column_bytes;
            large.column = tfos_schema_field(schema, i)->name;
        }
    }
    tfos_status status = tfos__large_row_fail(&large, error);
    tfos__sink_locate(sink, error);
    return status;
}

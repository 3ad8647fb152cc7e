/* Rows through a lane: schemas go before the rows that have them, and room is given back entry by entry. */
#include "feed/lane_rows.h"

#include "base/status.h"
#include "column/append.h"
#include "column/schema.h"

/* ---- the end that writes ---- */

void tfos__lane_writer_reset(tfos__lane_writer *writer)
{
    tfos_schema_free(writer->schema);
    writer->schema = NULL;
}

tfos_status tfos__lane_put_entry(tfos__lane_writer *writer, const void *entry, size_t bytes, tfos_error *error)
{
    uint8_t *to;
    tfos__lane_counts counts;
    TFOS_TRY(tfos__lane_reserve(writer->lane, bytes, &to, error));
    memcpy(to, entry, bytes);
    tfos__lane_count(writer->lane, &counts);
    TFOS_TRY(tfos__lane_commit(writer->lane, bytes, 0, counts.end_row, error));
    tfos__bell_ring(writer->reader);
    return TFOS_OK;
}

static tfos_status put_schema(tfos__lane_writer *writer, const tfos_schema *schema, tfos_error *error)
{
    tfos__buffer entry = {0};
    if (writer->schema != NULL && tfos_schema_equal(writer->schema, schema)) {
        return TFOS_OK;
    }
    tfos_status status = tfos__entry_append_schema(schema, &entry, error);
    status = status == TFOS_OK ? tfos__lane_put_entry(writer, entry.data, entry.size, error) : status;
    if (status == TFOS_OK) {
        tfos_schema_free(writer->schema);
        writer->schema = tfos__schema_retain(schema);
    }
    tfos__buffer_reset(&entry);
    return status;
}

/* Bytes that there are for an entry of at least `least`, behind a gap where one is needed. */
static tfos_status make_room(tfos__lane_writer *writer, size_t least, size_t *out, tfos_error *error)
{
    size_t gap = 0;
    uint8_t *to;
    *out = tfos__lane_free_bytes(writer->lane);
    if (writer->window > 0) {
        *out = tfos__lane_room(writer->lane, writer->window, least, &gap);
    }
    if (gap > 0 && *out >= least) {
        tfos__lane_counts counts;
        tfos__lane_count(writer->lane, &counts);
        TFOS_TRY(tfos__lane_reserve(writer->lane, gap, &to, error));
        tfos__entry_write_gap(gap, to);
        return tfos__lane_commit(writer->lane, gap, 0, counts.end_row, error);
    }
    return gap > 0 ? TFOS_END : TFOS_OK;
}

tfos_status tfos__lane_put_rows(tfos__lane_writer *writer, const tfos_batch *batch, int64_t first, int64_t count,
                                size_t most, uint64_t first_row, int64_t *out, tfos_error *error)
{
    uint8_t *to;
    TFOS_TRY(put_schema(writer, tfos_batch_schema(batch), error));
    size_t room;
    TFOS_TRY(make_room(writer, tfos__entry_batch_bytes(batch, first, 1), &room, error));
    int64_t rows = tfos__entry_rows_within(batch, first, count, room < most ? room : most);
    rows = tfos__max_i64(rows, 1); /* which there may be room for by now, or which is larger than wanted */
    size_t bytes = tfos__entry_batch_bytes(batch, first, rows);
    TFOS_TRY(tfos__lane_reserve(writer->lane, bytes, &to, error));
    tfos__entry_write_batch(batch, first, rows, first_row, to);
    TFOS_TRY(tfos__lane_commit(writer->lane, bytes, (uint64_t)rows, first_row + (uint64_t)rows, error));
    tfos__bell_ring(writer->reader);
    *out = rows;
    return TFOS_OK;
}

/* ---- the end that reads ---- */

void tfos__lane_reader_reset(tfos__lane_reader *reader)
{
    tfos_schema_free(reader->schema);
    tfos__entry_views_reset(&reader->views);
    *reader = (tfos__lane_reader){0};
}

void tfos__lane_reader_end(tfos__lane_reader *reader)
{
    tfos__lane_release(reader->lane, reader->entry.bytes);
    reader->reading = false;
    reader->released = true;
}

static tfos_status take_schema(tfos__lane_reader *reader, tfos_error *error)
{
    tfos_schema *schema;
    TFOS_TRY(tfos__entry_read_schema(reader->bytes, &reader->entry, &schema, error));
    tfos_schema_free(reader->schema);
    reader->schema = schema;
    return TFOS_OK;
}

static tfos_status begin_batch(tfos__lane_reader *reader, tfos_error *error)
{
    if (reader->schema == NULL) {
        return tfos__fail(error, TFOS_CORRUPT, "a lane has rows before it has a schema");
    }
    return tfos__entry_read_batch(reader->bytes, &reader->entry, reader->schema, &reader->views, error);
}

/* Whether the entry is one that whoever reads rows need not know of. */
static bool is_passed_over(const tfos__entry *entry)
{
    return entry->kind == TFOS__ENTRY_SCHEMA || entry->kind == TFOS__ENTRY_GAP ||
           (entry->kind == TFOS__ENTRY_BATCH && entry->rows == 0);
}

tfos_status tfos__lane_reader_begin(tfos__lane_reader *reader, bool *over, tfos_error *error)
{
    *over = false;
    while (!reader->reading) {
        size_t count;
        TFOS_TRY(tfos__lane_peek(reader->lane, &reader->bytes, &count, over, error));
        if (count == 0) {
            return TFOS_END;
        }
        TFOS_TRY(tfos__entry_read(reader->bytes, count, &reader->entry, error));
        if (reader->entry.kind == TFOS__ENTRY_SCHEMA) {
            TFOS_TRY(take_schema(reader, error));
        } else if (reader->entry.kind == TFOS__ENTRY_BATCH) {
            TFOS_TRY(begin_batch(reader, error));
        }
        reader->reading = true;
        reader->row = 0;
        if (is_passed_over(&reader->entry)) {
            tfos__lane_reader_end(reader);
        }
    }
    return TFOS_OK;
}

tfos_status tfos__lane_reader_take(tfos__lane_reader *reader, int64_t count, tfos_batch *to, tfos_error *error)
{
    size_t columns = tfos_schema_field_count(reader->schema);
    for (size_t i = 0; i < columns; i++) {
        const tfos_vector *from = &reader->views.vector[reader->views.column[i]];
        TFOS_TRY(tfos__vector_append(tfos__batch_vector(to, i), from, reader->row, count, error));
    }
    reader->row += count;
    if (reader->row == (int64_t)reader->entry.rows) {
        tfos__lane_reader_end(reader);
    }
    return TFOS_OK;
}

tfos_status tfos__lane_reader_copy(tfos__lane_reader *reader, int64_t count, tfos_batch **out, tfos_error *error)
{
    tfos_batch *batch;
    TFOS_TRY(tfos__batch_new(reader->schema, &batch, error));
    tfos_status status = tfos__lane_reader_take(reader, count, batch, error);
    status = status == TFOS_OK ? tfos__batch_finish(batch, count, error) : status;
    if (status != TFOS_OK) {
        tfos_batch_free(batch);
        return status;
    }
    *out = batch;
    return TFOS_OK;
}

/* Entries of a lane: any bytes are refused with a message, or are rows that can be read, copied, written again and read
 * the same.
 *
 * An input is one or two entries, one behind the other: a schema, then a batch of it. Without a schema, the batch has a
 * column of each kind. */
#include "column/append.h"
#include "feed/entry.h"
#include "fuzz_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char every_kind[] =
    "{\"record\": \"sequence_example\", \"fields\": ["
    "{\"name\": \"a\", \"type\": \"int32\"}, {\"name\": \"b\", \"type\": \"bool\", \"nullable\": true},"
    "{\"name\": \"c\", \"type\": \"string\", \"shape\": [null]}, {\"name\": \"d\", \"type\": \"float\", \"shape\": "
    "[2]},"
    "{\"name\": \"e\", \"type\": \"int64\", \"shape\": [null], \"feature_list\": true}]}";

static void check_failure(const tfos_error *error)
{
    require(error->status != TFOS_OK && error->message[0] != '\0', "a failure without a message");
    require(tfos__utf8_valid_prefix(error->message, strlen(error->message)) == strlen(error->message),
            "a message that is no text");
}

/* Touches what the views show, through a copy of it. */
static tfos_batch *copy_rows(const tfos_schema *schema, const tfos__entry_views *views, int64_t rows)
{
    tfos_batch *batch = NULL;
    require(tfos__batch_new(schema, &batch, NULL) == TFOS_OK, "no memory");
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        const tfos_vector *view = &views->vector[views->column[i]];
        require(view->length == rows, "a column has not the rows of its entry");
        require(tfos__vector_append(tfos__batch_vector(batch, i), view, 0, rows, NULL) == TFOS_OK,
                "rows cannot be copied");
    }
    require(tfos__batch_finish(batch, rows, NULL) == TFOS_OK, "no memory");
    return batch;
}

static void check_again(const tfos_batch *batch, const tfos__entry *entry)
{
    size_t bytes = tfos__entry_batch_bytes(batch, 0, entry->rows);
    uint8_t *room = aligned_alloc(64, bytes);
    require(room != NULL, "no memory");
    tfos__entry_write_batch(batch, 0, entry->rows, entry->first_row, room);
    tfos__entry again;
    tfos__entry_views views = {0};
    const tfos_schema *schema = tfos_batch_schema(batch);
    require(tfos__entry_read(room, bytes, &again, NULL) == TFOS_OK, "what was written cannot be read");
    require(again.bytes == bytes && again.rows == entry->rows && again.first_row == entry->first_row,
            "what was written reads as something else");
    require(tfos__entry_read_batch(room, &again, schema, &views, NULL) == TFOS_OK, "what was written cannot be read");
    tfos_batch *copy = copy_rows(schema, &views, again.rows);
    uint8_t *twice = aligned_alloc(64, bytes);
    require(twice != NULL && tfos__entry_batch_bytes(copy, 0, again.rows) == bytes, "another size than before");
    tfos__entry_write_batch(copy, 0, again.rows, again.first_row, twice);
    require(memcmp(room, twice, bytes) == 0, "other bytes than before");
    tfos_batch_free(copy);
    tfos__entry_views_reset(&views);
    free(room);
    free(twice);
}

static void check_batch(const uint8_t *at, const tfos__entry *entry, const tfos_schema *schema)
{
    tfos__entry_views views = {0};
    tfos_error error = {0};
    if (tfos__entry_read_batch(at, entry, schema, &views, &error) == TFOS_OK) {
        tfos_batch *batch = copy_rows(schema, &views, entry->rows);
        check_again(batch, entry);
        tfos_batch_free(batch);
    } else {
        check_failure(&error);
    }
    tfos__entry_views_reset(&views);
}

/* A schema whose nulls alone would take more memory than a fuzzer has is no matter of entries. */
static bool is_small(const tfos_schema *schema)
{
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        if (tfos_schema_field(schema, i)->length > 1000) {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    tfos_schema *schema = NULL;
    require(tfos_schema_from_json(every_kind, strlen(every_kind), &schema, NULL) == TFOS_OK, "the schema is wrong");
    /* Aligned as in a lane, where bytes come by 64, and no byte longer than the input. */
    size_t count = bytes / 64 * 64;
    uint8_t *room = aligned_alloc(64, count > 0 ? count : 64);
    require(room != NULL, "no memory");
    memcpy(room, data, count);
    const uint8_t *at = room;
    const uint8_t *end = room + count;
    tfos_error error = {0};
    for (int i = 0; i < 2 && at < end; i++) {
        tfos__entry entry;
        if (tfos__entry_read(at, (size_t)(end - at), &entry, &error) != TFOS_OK) {
            check_failure(&error);
            break;
        }
        require(entry.bytes >= 64 && entry.bytes <= (size_t)(end - at), "an entry that is longer than its bytes");
        tfos_schema *found = NULL;
        if (entry.kind == TFOS__ENTRY_BATCH) {
            check_batch(at, &entry, schema);
        } else if (entry.kind == TFOS__ENTRY_SCHEMA && tfos__entry_read_schema(at, &entry, &found, &error) == TFOS_OK) {
            tfos_schema_free(schema);
            schema = found;
            if (!is_small(schema)) {
                break;
            }
        }
        at += entry.bytes;
    }
    tfos_schema_free(schema);
    free(room);
    return 0;
}

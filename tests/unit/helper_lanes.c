/* Rows that can be told apart. */
#include "helper_lanes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "column/append.h"
#include "helper_records.h"

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz";

static void ok(tfos_status status)
{
    helper_need(status == TFOS_OK);
}

tfos_batch *helper_numbered_batch(int64_t rows)
{
    tfos_schema *schema = helper_schema("{\"fields\": [{\"name\": \"id\", \"type\": \"int64\"},"
                                        "{\"name\": \"text\", \"type\": \"string\", \"nullable\": true},"
                                        "{\"name\": \"flags\", \"type\": \"bool\", \"shape\": [null]}]}");
    tfos_batch *batch = NULL;
    ok(tfos__batch_new(schema, &batch, NULL));
    tfos_schema_free(schema);
    for (int64_t row = 0; row < rows; row++) {
        tfos__vector *text = tfos__batch_vector(batch, 1);
        tfos__vector *flags = tfos__batch_vector(batch, 2);
        ok(tfos__vector_push_int(tfos__batch_vector(batch, 0), row, NULL));
        ok(row % 7 == 3 ? tfos__vector_push_null(text, NULL)
                        : tfos__vector_push_bytes(text, alphabet, (size_t)(row % 27), NULL));
        for (int64_t i = 0; i < row % 3; i++) {
            ok(tfos__vector_push_int(flags->child, (row + i) % 2, NULL));
        }
        ok(tfos__vector_push_list(flags, NULL));
    }
    ok(tfos__batch_finish(batch, rows, NULL));
    return batch;
}

/* ---- feeding ---- */

static tfos_status reserve(helper_producer *self, size_t bytes, uint8_t **to)
{
    for (;;) {
        uint32_t seen = tfos__bell_read(self->bell);
        tfos_status status = tfos__lane_reserve(self->lane, bytes, to, NULL);
        if (status != TFOS_END) {
            return status;
        }
        tfos__bell_wait(self->bell, seen, -1);
    }
}

static tfos_status feed_schema(helper_producer *self)
{
    tfos__buffer bytes = {0};
    uint8_t *to = NULL;
    ok(tfos__entry_append_schema(tfos_batch_schema(self->batch), &bytes, NULL));
    tfos_status status = reserve(self, bytes.size, &to);
    if (status == TFOS_OK) {
        memcpy(to, bytes.data, bytes.size);
        status = tfos__lane_commit(self->lane, bytes.size, 0, 0, NULL);
        tfos__bell_ring(self->consumer_bell);
    }
    tfos__buffer_reset(&bytes);
    return status;
}

static tfos_status feed_rows(helper_producer *self, uint64_t end_row)
{
    int64_t rows = tfos_batch_rows(self->batch);
    int64_t first = (int64_t)(self->next_row % (uint64_t)rows);
    int64_t count = 1 + (int64_t)(helper_random(&self->random) % (uint64_t)self->most_rows);
    count = tfos__min_i64(count, rows - first);
    count = tfos__min_i64(count, (int64_t)(end_row - self->next_row));
    uint8_t *to = NULL;
    size_t bytes = tfos__entry_batch_bytes(self->batch, first, count);
    tfos_status status = reserve(self, bytes, &to);
    if (status != TFOS_OK) {
        return status;
    }
    tfos__entry_write_batch(self->batch, first, count, self->next_row, to);
    status = tfos__lane_commit(self->lane, bytes, (uint64_t)count, self->next_row + (uint64_t)count, NULL);
    if (status == TFOS_OK) {
        self->next_row += (uint64_t)count;
        tfos__bell_ring(self->consumer_bell);
    }
    return status;
}

tfos_status helper_produce(helper_producer *self, uint64_t end_row)
{
    tfos_status status = feed_schema(self);
    while (status == TFOS_OK && self->next_row < end_row) {
        status = feed_rows(self, end_row);
    }
    tfos__lane_close_head(self->lane);
    tfos__bell_ring(self->consumer_bell);
    return status;
}

/* ---- taking ---- */

/* By what a row must be, and not by another copy of it. */
static void check_row(const helper_consumer *self, int64_t at, int64_t row)
{
    const tfos_vector *id = &self->views.vector[self->views.column[0]];
    const tfos_vector *text = &self->views.vector[self->views.column[1]];
    const tfos_vector *flags = &self->views.vector[self->views.column[2]];
    helper_need(((const int64_t *)id->data)[at] == row);
    int32_t bytes = text->offsets[at + 1] - text->offsets[at];
    if (row % 7 == 3) {
        helper_need(tfos__vector_is_null(text, at) && bytes == 0);
    } else {
        helper_need(!tfos__vector_is_null(text, at) && bytes == row % 27);
        helper_need(memcmp((const uint8_t *)text->data + text->offsets[at], alphabet, (size_t)bytes) == 0);
    }
    helper_need(flags->offsets[at + 1] - flags->offsets[at] == row % 3);
    for (int64_t i = 0; i < row % 3; i++) {
        helper_need(tfos__bit_get(flags->child->data, flags->offsets[at] + i) == ((row + i) % 2 != 0));
    }
}

static void take_rows(helper_consumer *self, const uint8_t *from, const tfos__entry *entry)
{
    int64_t rows = tfos_batch_rows(self->batch);
    helper_need(self->schema != NULL && entry->first_row == self->next_row);
    ok(tfos__entry_read_batch(from, entry, self->schema, &self->views, NULL));
    for (int64_t i = 0; i < entry->rows; i++) {
        check_row(self, i, (int64_t)((self->next_row + (uint64_t)i) % (uint64_t)rows));
    }
    self->next_row += entry->rows;
    tfos__lane_take_rows(self->lane, entry->rows);
}

bool helper_consume(helper_consumer *self)
{
    const uint8_t *from;
    size_t bytes;
    bool fed_out;
    ok(tfos__lane_peek(self->lane, &from, &bytes, &fed_out, NULL));
    bool more = !fed_out || bytes > 0;
    while (bytes > 0) {
        tfos__entry entry;
        ok(tfos__entry_read(from, bytes, &entry, NULL));
        if (entry.kind == TFOS__ENTRY_SCHEMA) {
            helper_need(self->schema == NULL);
            ok(tfos__entry_read_schema(from, &entry, &self->schema, NULL));
        } else {
            take_rows(self, from, &entry);
        }
        tfos__lane_release(self->lane, entry.bytes);
        tfos__bell_ring(self->producer_bell);
        from += entry.bytes;
        bytes -= entry.bytes;
    }
    return more;
}

void helper_consume_all(helper_consumer *self)
{
    for (;;) {
        uint32_t seen = tfos__bell_read(self->bell);
        uint64_t before = tfos__lane_used(self->lane);
        if (!helper_consume(self)) {
            return;
        }
        if (before == 0) {
            tfos__bell_wait(self->bell, seen, -1);
        }
    }
}

void helper_consumer_reset(helper_consumer *self)
{
    tfos_schema_free(self->schema);
    tfos__entry_views_reset(&self->views);
}

/* ---- what a process holds ---- */

size_t helper_count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    helper_need(folder != NULL);
    size_t count = 0;
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count - 3; /* ".", ".." and the folder */
}

size_t helper_count_mappings(const char *part)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    size_t count = 0;
    helper_need(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        count += strstr(line, part) != NULL;
    }
    fclose(file);
    return count;
}

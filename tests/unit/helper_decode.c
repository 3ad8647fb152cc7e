#include "helper_decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_text.h"
#include "record/decode.h"
#include "record/encode.h"

/* A copy with exactly the bytes behind it that a decoder may read. */
static uint8_t *with_slack(helper_bytes record)
{
    uint8_t *copy = malloc(record.count + TFOS__RECORD_SLACK_BYTES);
    assert_non_null(copy);
    memset(copy, 0xEE, record.count + TFOS__RECORD_SLACK_BYTES);
    if (record.count > 0) {
        memcpy(copy, record.data, record.count);
    }
    return copy;
}

static void put_text(tfos__buffer *text, const char *more)
{
    assert_int_equal(tfos__buffer_append(text, more, strlen(more), NULL), TFOS_OK);
}

static const char *decode(const char *schema_json, const helper_bytes *records, size_t count, bool narrow)
{
    tfos_schema *schema = helper_schema(schema_json);
    tfos__decoder *decoder = NULL;
    tfos_batch *batch = NULL;
    tfos__buffer text = {0};
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    assert_int_equal(tfos__decoder_new(schema, &decoder, NULL), TFOS_OK);
    if (narrow) {
        tfos__decoder_narrow(decoder);
    }
    assert_int_equal(tfos__decoder_begin(decoder, batch, (int64_t)count, NULL), TFOS_OK);
    for (size_t i = 0; i < count; i++) {
        uint8_t *record = with_slack(records[i]);
        tfos_error error = {0};
        tfos_status status = tfos__decoder_row(decoder, record, records[i].count, &error);
        free(record);
        if (status != TFOS_OK) {
            put_text(&text, "!");
            put_text(&text, tfos_status_name(status));
            put_text(&text, " ");
            put_text(&text, error.message);
            put_text(&text, "\n");
        }
    }
    assert_int_equal(tfos__batch_finish(batch, tfos__decoder_rows(decoder), NULL), TFOS_OK);
    helper_show_batch(batch, &text);
    const char *shown = (const char *)helper_copy(text.data, text.size).data;
    tfos__buffer_reset(&text);
    tfos__decoder_free(decoder);
    tfos_batch_free(batch);
    tfos_schema_free(schema);
    return shown;
}

const char *helper_decode(const char *schema_json, const helper_bytes *records, size_t count)
{
    const char *text = decode(schema_json, records, count, false);
    helper_expect_text(decode(schema_json, records, count, true), text);
    return text;
}

tfos_batch *helper_batch(const tfos_schema *schema, const helper_bytes *records, size_t count)
{
    tfos__decoder *decoder = NULL;
    tfos_batch *batch = NULL;
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    assert_int_equal(tfos__decoder_new(schema, &decoder, NULL), TFOS_OK);
    assert_int_equal(tfos__decoder_begin(decoder, batch, (int64_t)count, NULL), TFOS_OK);
    for (size_t i = 0; i < count; i++) {
        uint8_t *record = with_slack(records[i]);
        tfos_error error = {0};
        if (tfos__decoder_row(decoder, record, records[i].count, &error) != TFOS_OK) {
            fail_msg("record %zu: %s", i, error.message);
        }
        free(record);
    }
    assert_int_equal(tfos__batch_finish(batch, (int64_t)count, NULL), TFOS_OK);
    tfos__decoder_free(decoder);
    return batch;
}

helper_bytes helper_encode(const tfos_batch *batch, int64_t row)
{
    tfos__encoder *encoder = NULL;
    tfos__buffer out = {0};
    assert_int_equal(tfos__encoder_new(tfos_batch_schema(batch), &encoder, NULL), TFOS_OK);
    assert_int_equal(tfos__buffer_append(&out, "before", 6, NULL), TFOS_OK); /* it is appended to what is there */
    assert_int_equal(tfos__encoder_row(encoder, batch, row, &out, NULL), TFOS_OK);
    tfos__encoder_free(encoder);
    assert_memory_equal(out.data, "before", 6);
    helper_bytes bytes = helper_copy(out.data + 6, out.size - 6);
    tfos__buffer_reset(&out);
    return bytes;
}

/* "name [list of ]type[shape][ nullable]" */
static void put_field(tfos__buffer *text, const char *field)
{
    char name[256];
    char type[32];
    int used = 0;
    assert_int_equal(sscanf(field, "%255s %n", name, &used), 1);
    field += used;
    bool list = strncmp(field, "list of ", 8) == 0;
    field += list ? 8 : 0;
    assert_int_equal(sscanf(field, "%31[a-z0-9]%n", type, &used), 1);
    field += used;
    const char *close = *field == '[' ? strchr(field, ']') : NULL;
    char shape[32] = "[]";
    if (close != NULL) {
        snprintf(shape, sizeof shape, "[%.*s]", (int)(close - field - 1), close == field + 1 ? "" : field + 1);
        if (close == field + 1) {
            snprintf(shape, sizeof shape, "[null]");
        }
    }
    assert_int_equal(tfos__buffer_printf(text, NULL,
                                         "{\"name\": \"%s\", \"type\": \"%s\", \"shape\": %s, \"nullable\": %s%s}",
                                         name, type, shape, strstr(field, "nullable") != NULL ? "true" : "false",
                                         list ? ", \"feature_list\": true" : ""),
                     TFOS_OK);
}

const char *helper_fields(const char *const *fields, size_t count)
{
    tfos__buffer text = {0};
    bool sequence = false;
    for (size_t i = 0; i < count; i++) {
        sequence = sequence || strstr(fields[i], " list of ") != NULL;
    }
    put_text(&text, sequence ? "{\"record\": \"sequence_example\", \"fields\": [" : "{\"fields\": [");
    for (size_t i = 0; i < count; i++) {
        put_text(&text, i > 0 ? ", " : "");
        put_field(&text, fields[i]);
    }
    put_text(&text, "]}");
    const char *json = (const char *)helper_copy(text.data, text.size).data;
    tfos__buffer_reset(&text);
    return json;
}

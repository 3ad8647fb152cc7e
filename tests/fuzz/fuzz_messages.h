/* What the fuzz targets of Example and SequenceExample share. The input is two records: its first byte says where the
 * second begins. They are decoded with a schema that has every type and shape, alone and in turn, what was decoded is
 * encoded and decoded again, and what inference says of the two must be able to read them. */
#ifndef TFOS_TESTS_FUZZ_MESSAGES_H
#define TFOS_TESTS_FUZZ_MESSAGES_H

#include "fuzz_tools.h"
#include "record/decode.h"
#include "record/encode.h"
#include "record/json_lines.h"

enum { MOST_RECORDS = 6 };

typedef struct span {
    const uint8_t *at;
    size_t bytes;
} span;

/* What became of records that were decoded one after the other. */
typedef struct decoded {
    tfos_status status[MOST_RECORDS];
    tfos__buffer encoded; /* of the rows that there are */
    tfos__buffer shown;
} decoded;

static inline tfos_status decode_row(tfos__decoder *decoder, span record)
{
    tfos_error error = {0};
    uint8_t *exact = malloc(record.bytes + TFOS__RECORD_SLACK_BYTES); /* what a decoder is promised, not a byte more */
    require(exact != NULL, "no memory");
    memset(exact + record.bytes, 0xEE, TFOS__RECORD_SLACK_BYTES);
    memcpy(exact, record.at, record.bytes);
    int64_t before = tfos__decoder_rows(decoder);
    tfos_status status = tfos__decoder_row(decoder, exact, record.bytes, &error);
    require(status == TFOS_OK || error.message[0] != '\0', "a failure without a message");
    require(tfos__decoder_rows(decoder) - before == (status == TFOS_OK), "a row that failed is there");
    free(exact);
    return status;
}

static inline decoded decode(const tfos_schema *schema, const span *records, size_t count, bool narrow)
{
    decoded result = {0};
    tfos__decoder *decoder = NULL;
    tfos__encoder *encoder = NULL;
    tfos_batch *batch = NULL;
    require(tfos__batch_new(schema, &batch, NULL) == TFOS_OK && tfos__decoder_new(schema, &decoder, NULL) == TFOS_OK &&
                tfos__encoder_new(schema, &encoder, NULL) == TFOS_OK &&
                tfos__decoder_begin(decoder, batch, (int64_t)count, NULL) == TFOS_OK,
            "no memory");
    if (narrow) {
        tfos__decoder_narrow(decoder);
    }
    for (size_t i = 0; i < count; i++) {
        result.status[i] = decode_row(decoder, records[i]);
    }
    require(tfos__batch_finish(batch, tfos__decoder_rows(decoder), NULL) == TFOS_OK, "a batch cannot be finished");
    for (int64_t row = 0; row < tfos_batch_rows(batch); row++) {
        require(tfos__encoder_row(encoder, batch, row, &result.encoded, NULL) == TFOS_OK, "a row cannot be encoded");
        require(tfos__json_write_row(batch, row, &result.shown, NULL) == TFOS_OK, "a row cannot be shown");
    }
    tfos__encoder_free(encoder);
    tfos__decoder_free(decoder);
    tfos_batch_free(batch);
    return result;
}

static inline void free_decoded(decoded *self)
{
    tfos__buffer_reset(&self->encoded);
    tfos__buffer_reset(&self->shown);
}

static inline bool is_valid(const uint8_t *record, size_t bytes, bool sequence)
{
    tfos__joined joined = {0};
    uint8_t *exact = malloc(bytes + 1);
    require(exact != NULL, "no memory");
    memcpy(exact, record, bytes);
    bool valid = tfos__message_valid((tfos__wire){exact, exact + bytes}, sequence, &joined);
    free(exact);
    tfos__joined_reset(&joined);
    return valid;
}

static inline decoded check_record(const tfos_schema *schema, span record)
{
    bool sequence = tfos_schema_kind(schema) == TFOS_RECORD_SEQUENCE;
    bool valid = is_valid(record.at, record.bytes, sequence);
    decoded first = decode(schema, &record, 1, false);
    require(!valid || first.status[0] != TFOS_CORRUPT, "a message that verifies does not parse");
    if (first.status[0] == TFOS_OK) {
        span encoded = {first.encoded.data, first.encoded.size};
        require(is_valid(encoded.at, encoded.bytes, sequence), "what was encoded is no message");
        decoded again = decode(schema, &encoded, 1, false);
        require(again.status[0] == TFOS_OK, "what was encoded cannot be decoded");
        require(same(&again.shown, &first.shown), "what was encoded reads as something else");
        require(same(&again.encoded, &first.encoded), "what was encoded is encoded differently");
        free_decoded(&again);
    }
    return first;
}

/* What a record gives does not depend on those before it, whatever the decoder remembers of them. */
static inline void check_pair(const tfos_schema *schema, span left, span right)
{
    const span records[MOST_RECORDS] = {left, right, right, left, left, right};
    const bool is_left[MOST_RECORDS] = {true, false, false, true, true, false};
    decoded first = check_record(schema, left);
    decoded second = check_record(schema, right);
    decoded all = decode(schema, records, MOST_RECORDS, false);
    decoded narrow = decode(schema, records, MOST_RECORDS, true);
    require(same(&narrow.shown, &all.shown), "processors of different kinds read different rows");
    free_decoded(&narrow);
    tfos__buffer expected = {0};
    for (size_t i = 0; i < MOST_RECORDS; i++) {
        const decoded *alone = is_left[i] ? &first : &second;
        require(all.status[i] == alone->status[0], "a record ends otherwise than alone");
        append(&expected, alone->shown.data, alone->shown.size);
    }
    require(same(&all.shown, &expected), "a record reads as something else than alone");
    tfos__buffer_reset(&expected);
    free_decoded(&first);
    free_decoded(&second);
    free_decoded(&all);
}

static inline void check_inference(const uint8_t *data, size_t cut, size_t bytes, tfos_record_kind kind)
{
    tfos__buffer file = {0};
    tfos_read_options options;
    tfos_schema *schema = NULL;
    tfos_error error = {0};
    append_record(&file, data, cut);
    append_record(&file, data + cut, bytes - cut);
    const tfos_paths *paths = put_file(file.data, file.size);
    tfos_read_options_init(&options, sizeof options);
    options.threads = 0;
    options.record = kind;
    tfos_status status = tfos_schema_infer(paths, &options, &schema, &error);
    bool valid = is_valid(data, cut, kind == TFOS_RECORD_SEQUENCE) &&
                 is_valid(data + cut, bytes - cut, kind == TFOS_RECORD_SEQUENCE);
    require(status != TFOS_OK || valid, "a schema of records that do not parse");
    require(status != TFOS_CORRUPT || !valid, "records that verify do not parse");
    if (status == TFOS_OK) {
        int64_t rows = 0;
        tfos_reader *reader = NULL;
        tfos_batch *batch;
        options.schema = schema;
        require(tfos_reader_open(paths, &options, &reader, &error) == TFOS_OK, "no reader");
        while ((status = tfos_reader_next(reader, &batch, &error)) == TFOS_OK) {
            rows += tfos_batch_rows(batch);
            tfos_batch_free(batch);
        }
        tfos_reader_close(reader);
        require(status == TFOS_END && rows == 2, "the schema that was inferred does not read the records");
    } else {
        require(error.message[0] != '\0', "a failure without a message");
    }
    tfos_schema_free(schema);
    tfos__buffer_reset(&file);
}

static inline int check_messages(const char *schema_json, const uint8_t *data, size_t bytes)
{
    static tfos_schema *schema;
    if (schema == NULL) {
        require(tfos_schema_from_json(schema_json, strlen(schema_json), &schema, NULL) == TFOS_OK, "no schema");
    }
    if (bytes == 0) {
        return 0;
    }
    size_t cut = (bytes - 1) * data[0] / 255;
    check_pair(schema, (span){data + 1, cut}, (span){data + 1 + cut, bytes - 1 - cut});
    check_inference(data + 1, cut, bytes - 1, tfos_schema_kind(schema));
    return 0;
}

#endif

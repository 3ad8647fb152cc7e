/* Framing: whatever is in a file, reading it ends, says the truth about what it skipped, and gives the same records in
 * batches of any size and in splits.
 *
 * A fuzzer cannot guess checksums, so the input is a script: the first bytes choose codec and border, then come steps
 * that write a sound record, a record with a wrong payload, a header that lies, or bytes as they are. */
#include "fuzz_tools.h"
#include "record/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_BYTES = 1 << 16 };

/* ---- the file ---- */

typedef struct script {
    const uint8_t *at;
    const uint8_t *end;
} script;

static uint8_t next_byte(script *from)
{
    return from->at < from->end ? *from->at++ : 0;
}

static size_t take(script *from, size_t wanted, const uint8_t **out)
{
    size_t left = (size_t)(from->end - from->at);
    *out = from->at;
    from->at += wanted < left ? wanted : left;
    return wanted < left ? wanted : left;
}

static void write_step(script *from, tfos__buffer *file)
{
    uint8_t step = next_byte(from);
    const uint8_t *payload;
    size_t count = take(from, step >> 2, &payload);
    uint8_t header[TFOS__FRAME_HEADER_BYTES];
    uint64_t length = 0;
    switch (step & 3) {
    case 0:
        append_record(file, payload, count);
        break;
    case 1:
        append_record(file, payload, count);
        file->data[file->size - 1] ^= 0x55;
        break;
    case 2: /* the bytes are the length */
        memcpy(&length, payload, count < 8 ? count : 8);
        tfos__frame_put_header(header, length);
        append(file, header, sizeof header);
        break;
    default:
        append(file, payload, count);
        break;
    }
}

/* ---- the answer ---- */

static bool header_at(const tfos__buffer *file, size_t at, uint64_t *length)
{
    return file->size >= at + TFOS__FRAME_HEADER_BYTES && tfos__frame_header(file->data + at, length);
}

static bool frame_at(const tfos__buffer *file, size_t at, uint64_t *length)
{
    return header_at(file, at, length) && *length <= file->size &&
           *length + TFOS__FRAME_OVERHEAD_BYTES <= file->size - at;
}

static bool record_at(const tfos__buffer *file, size_t at, uint64_t *length)
{
    return frame_at(file, at, length) &&
           tfos__frame_payload(file->data + at + TFOS__FRAME_HEADER_BYTES, (size_t)*length);
}

/* The records that can be read when damage is skipped, by the plainest means: their frames in `out`, and the offset of
 * the first one at or behind `border`. */
static size_t recover(const tfos__buffer *file, size_t border, tfos__buffer *out)
{
    size_t at = 0;
    size_t aligned = file->size;
    while (at < file->size) {
        uint64_t length;
        uint64_t next_length;
        if (record_at(file, at, &length)) {
            aligned = at >= border && aligned == file->size ? at : aligned;
            append(out, file->data + at, (size_t)length + TFOS__FRAME_OVERHEAD_BYTES);
            at += (size_t)length + TFOS__FRAME_OVERHEAD_BYTES;
            continue;
        }
        if (frame_at(file, at, &length)) {
            size_t next = at + (size_t)length + TFOS__FRAME_OVERHEAD_BYTES;
            if (next == file->size || header_at(file, next, &next_length)) {
                at = next;
                continue;
            }
        }
        do {
            at++;
        } while (at < file->size && !record_at(file, at, &length));
    }
    return aligned;
}

/* ---- reading ---- */

typedef struct outcome {
    tfos_status status;
    tfos__buffer frames; /* of the records that came, as they must have been in the file */
    tfos_progress progress;
} outcome;

static outcome read_file(const tfos_paths *paths, tfos_read_options options)
{
    outcome result = {0};
    tfos_error error = {0};
    tfos_reader *reader = NULL;
    options.record = TFOS_RECORD_BYTES;
    options.threads = 0;
    result.status = tfos_reader_open(paths, &options, &reader, &error);
    while (result.status == TFOS_OK) {
        tfos_batch *batch;
        result.status = tfos_reader_next(reader, &batch, &error);
        for (int64_t row = 0; result.status == TFOS_OK && row < tfos_batch_rows(batch); row++) {
            const tfos_vector *vector = tfos_batch_column(batch, 0);
            append_record(&result.frames, (const uint8_t *)vector->data + vector->offsets[row],
                          (size_t)(vector->offsets[row + 1] - vector->offsets[row]));
        }
        if (result.status == TFOS_OK) {
            tfos_batch_free(batch);
        }
    }
    require(result.status == TFOS_END || error.message[0] != '\0', "a failure without a message");
    if (reader != NULL) {
        tfos_reader_progress(reader, &result.progress);
        tfos_reader_close(reader);
    }
    return result;
}

/* Such a file is refused when it is said to be uncompressed. */
static bool looks_compressed(const tfos__buffer *file)
{
    uint64_t length;
    const uint8_t *at = file->data;
    bool gzip = file->size >= 3 && at[0] == 0x1F && at[1] == 0x8B && at[2] == 8;
    bool zlib = file->size >= 2 && at[0] == 0x78 && (at[0] * 256 + at[1]) % 31 == 0;
    return (gzip || zlib) && !header_at(file, 0, &length);
}

static void check_plain(const tfos_paths *paths, const tfos__buffer *file, size_t border)
{
    tfos_read_options options;
    tfos__buffer expected = {0};
    size_t aligned = recover(file, border, &expected);
    tfos_read_options_init(&options, sizeof options);
    options.codec = TFOS_CODEC_NONE;
    outcome strict = read_file(paths, options);
    if (looks_compressed(file)) {
        require(strict.status == TFOS_CORRUPT, "a compressed file was read as it is");
        goto done;
    }
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    for (options.batch_rows = 1; options.batch_rows < 1000; options.batch_rows += 700) {
        outcome lenient = read_file(paths, options);
        require(lenient.status == TFOS_END, "damage was not skipped");
        require(same(&lenient.frames, &expected), "other records than there are");
        require(lenient.progress.skipped_bytes + (int64_t)expected.size == (int64_t)file->size,
                "bytes unaccounted for");
        require((strict.status == TFOS_END) == (lenient.progress.skipped_records == 0), "damage that is no error");
        tfos__buffer_reset(&lenient.frames);
    }
    require(strict.frames.size <= expected.size &&
                (strict.frames.size == 0 || memcmp(strict.frames.data, expected.data, strict.frames.size) == 0),
            "other records before the error");
    /* A payload that holds records misleads a split that begins in it: only an index helps there. */
    int64_t found = -1;
    require(tfos_records_align(paths->path[0], (int64_t)border, &found, NULL) == TFOS_OK, "a border cannot be aligned");
    if (border > 0 && found == (int64_t)aligned) {
        options.range_end = (int64_t)border;
        outcome first = read_file(paths, options);
        options.range_start = (int64_t)border;
        options.range_end = -1;
        outcome second = read_file(paths, options);
        append(&first.frames, second.frames.data, second.frames.size);
        require(first.status == TFOS_END && second.status == TFOS_END, "a split failed");
        require(same(&first.frames, &expected), "splits give other records than the whole");
        require(first.progress.skipped_bytes + second.progress.skipped_bytes + (int64_t)expected.size ==
                    (int64_t)file->size,
                "splits count other bytes than the whole");
        tfos__buffer_reset(&first.frames);
        tfos__buffer_reset(&second.frames);
    }
done:
    tfos__buffer_reset(&strict.frames);
    tfos__buffer_reset(&expected);
}

/* A compressed file, damaged at one byte: it is read or refused, and skipping ends well. */
static void check_compressed(const tfos__buffer *file, tfos_codec codec, uint8_t damage)
{
    tfos__deflater *deflater = NULL;
    tfos__buffer packed = {0};
    tfos_read_options options;
    require(tfos__deflater_new(codec, 1, &deflater, NULL) == TFOS_OK, "no zlib");
    require(tfos__deflater_run(deflater, file->data, file->size, true, &packed, NULL) == TFOS_OK, "cannot deflate");
    tfos__deflater_free(deflater);
    if (damage != 0) {
        packed.data[3 + damage * 97 % (packed.size - 3)] ^= damage;
    }
    tfos_read_options_init(&options, sizeof options);
    options.codec = codec;
    const tfos_paths *paths = put_file(packed.data, packed.size);
    outcome strict = read_file(paths, options);
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    outcome lenient = read_file(paths, options);
    require(lenient.status == TFOS_END, "damage was not skipped");
    require(strict.frames.size <= lenient.frames.size, "skipping gives fewer records");
    require((strict.status == TFOS_END) == (lenient.progress.skipped_records == 0), "damage that is no error");
    require(strict.status != TFOS_END || same(&strict.frames, file), "a file that is read whole has other bytes");
    tfos__buffer_reset(&strict.frames);
    tfos__buffer_reset(&lenient.frames);
    tfos__buffer_reset(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    script from = {data, data + bytes};
    tfos__buffer file = {0};
    uint8_t codec = next_byte(&from) % 3;
    uint8_t damage = next_byte(&from);
    append(&file, "", 0);
    while (from.at < from.end && file.size < MOST_BYTES) {
        write_step(&from, &file);
    }
    if (codec == 0) {
        check_plain(put_file(file.data, file.size), &file, file.size * damage / 256);
    } else {
        check_compressed(&file, codec == 1 ? TFOS_CODEC_GZIP : TFOS_CODEC_ZLIB, damage);
    }
    tfos__buffer_reset(&file);
    return 0;
}

/* Codecs. zlib comes from the system, by dlopen: a static zlib cannot go into a shared library on Debian, and a linked
 * one would meet the zlib symbols that TensorFlow exports (RTLD_DEEPBIND keeps the two apart). */
#include "record/codec.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/choice.h"
#include "base/status.h"
#include "fs/fs.h"
#include "record/frame.h"

/* The sanitizers' runtimes intercept libc and refuse DEEPBIND. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DLOPEN_FLAGS (RTLD_NOW | RTLD_LOCAL)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DLOPEN_FLAGS (RTLD_NOW | RTLD_LOCAL)
#endif
#endif
#ifndef DLOPEN_FLAGS
#define DLOPEN_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)
#endif

/* ---- zlib ---- */

static struct {
    int (*inflate_init)(z_stream *, int, const char *, int);
    int (*inflate)(z_stream *, int);
    int (*inflate_reset)(z_stream *);
    int (*inflate_end)(z_stream *);
    int (*deflate_init)(z_stream *, int, int, int, int, int, const char *, int);
    int (*deflate)(z_stream *, int);
    int (*deflate_end)(z_stream *);
    char problem[256];
} zlib;

static pthread_once_t zlib_once = PTHREAD_ONCE_INIT;

static void load_zlib(void)
{
    void *library = dlopen("libz.so.1", DLOPEN_FLAGS);
    if (library == NULL) {
        const char *why = dlerror();
        strncpy(zlib.problem, why != NULL ? why : "libz.so.1 cannot be loaded", sizeof zlib.problem - 1);
        return;
    }
    const struct {
        const char *name;
        void **to;
    } symbols[] = {
        {"inflateInit2_", (void **)&zlib.inflate_init}, {"inflate", (void **)&zlib.inflate},
        {"inflateReset", (void **)&zlib.inflate_reset}, {"inflateEnd", (void **)&zlib.inflate_end},
        {"deflateInit2_", (void **)&zlib.deflate_init}, {"deflate", (void **)&zlib.deflate},
        {"deflateEnd", (void **)&zlib.deflate_end},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        *symbols[i].to = dlsym(library, symbols[i].name);
        if (*symbols[i].to == NULL) {
            strncpy(zlib.problem, "libz.so.1 lacks a function that every zlib has", sizeof zlib.problem - 1);
        }
    }
}

static tfos_status need_zlib(const char *path, tfos_error *error)
{
    pthread_once(&zlib_once, load_zlib);
    if (zlib.problem[0] != '\0') {
        return tfos__fail(error, TFOS_MISSING_LIBRARY, "%s: compressed data needs zlib (Debian: zlib1g): %s", path,
                          zlib.problem);
    }
    return TFOS_OK;
}

/* zlib's window argument: 15 bits, plus 16 for the gzip wrapper. */
static int window_bits(tfos_codec codec)
{
    return codec == TFOS_CODEC_GZIP ? 15 + 16 : 15;
}

/* ---- names ---- */

const char *const tfos__codec_names[] = {"auto", "none", "gzip", "zlib", NULL};
TFOS__CHOICE_FUNCTIONS(codec, "codec", tfos__codec_names)

tfos_codec tfos__codec_of_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot == NULL) {
        return TFOS_CODEC_NONE;
    }
    if (strcmp(dot, ".gz") == 0) {
        return TFOS_CODEC_GZIP;
    }
    return strcmp(dot, ".zlib") == 0 || strcmp(dot, ".zz") == 0 || strcmp(dot, ".deflate") == 0 ? TFOS_CODEC_ZLIB
                                                                                                : TFOS_CODEC_NONE;
}

/* ---- reading ---- */

enum { INPUT_BYTES = 256 * 1024, PEEKED_BYTES = 512 };

struct tfos__stream {
    tfos__file *file;
    tfos_codec codec;
    uint8_t peeked[PEEKED_BYTES]; /* the first bytes, read to find the codec */
    size_t peeked_bytes;
    int64_t consumed; /* stored bytes */
    int64_t produced; /* uncompressed bytes */
    z_stream z;
    bool z_open;
    bool member_ended; /* between members of a gzip file */
    bool ended;
    bool failed; /* after bytes that have been handed out: `failure` is for the next call */
    tfos_error failure;
    uint8_t *input;
};

/* Stored bytes, the peeked ones first: a pipe cannot be read twice. */
static tfos_status read_stored(tfos__stream *stream, void *to, size_t bytes, size_t *got, tfos_error *error)
{
    if (stream->consumed < (int64_t)stream->peeked_bytes) {
        size_t left = stream->peeked_bytes - (size_t)stream->consumed;
        *got = left < bytes ? left : bytes;
        memcpy(to, stream->peeked + stream->consumed, *got);
    } else {
        TFOS_TRY(tfos__file_read(stream->file, stream->consumed, to, bytes, got, error));
    }
    stream->consumed += (int64_t)*got;
    return TFOS_OK;
}

static bool begins_like_zlib(const uint8_t *bytes, size_t count)
{
    return count >= 2 && bytes[0] == 0x78 && (bytes[0] * 256 + bytes[1]) % 31 == 0;
}

static tfos_status peek_until(tfos__stream *stream, size_t wanted, tfos_error *error)
{
    size_t got = 1;
    while (got > 0 && stream->peeked_bytes < wanted) {
        TFOS_TRY(tfos__file_read(stream->file, (int64_t)stream->peeked_bytes, stream->peeked + stream->peeked_bytes,
                                 wanted - stream->peeked_bytes, &got, error));
        stream->peeked_bytes += got;
    }
    return TFOS_OK;
}

/* No more than is needed: the writer of a pipe may wait for what its first record brings about. */
static tfos_status peek(tfos__stream *stream, tfos_error *error)
{
    TFOS_TRY(peek_until(stream, TFOS__FRAME_HEADER_BYTES, error));
    bool more = begins_like_zlib(stream->peeked, stream->peeked_bytes);
    return more ? peek_until(stream, sizeof stream->peeked, error) : TFOS_OK;
}

static tfos_codec detect(const uint8_t *bytes, size_t count, tfos__content content)
{
    uint64_t length;
    if (content == TFOS__CONTENT_RECORDS && count >= TFOS__FRAME_HEADER_BYTES && tfos__frame_header(bytes, &length)) {
        return TFOS_CODEC_NONE;
    }
    if (count >= 3 && bytes[0] == 0x1F && bytes[1] == 0x8B && bytes[2] == 8) {
        return TFOS_CODEC_GZIP;
    }
    if (content == TFOS__CONTENT_RECORDS && begins_like_zlib(bytes, count)) {
        return TFOS_CODEC_ZLIB;
    }
    return TFOS_CODEC_NONE;
}

/* A zlib stream begins with two bytes that a damaged header may begin with too, so it must also inflate to something
 * that begins as a TFRecord file does. */
static bool inflates_to_records(const tfos__stream *stream)
{
    uint8_t first[TFOS__FRAME_HEADER_BYTES];
    uint64_t length;
    z_stream z = {.next_in = (Bytef *)(uintptr_t)stream->peeked,
                  .avail_in = (uInt)stream->peeked_bytes,
                  .next_out = first,
                  .avail_out = sizeof first};
    if (zlib.inflate_init(&z, window_bits(TFOS_CODEC_ZLIB), ZLIB_VERSION, (int)sizeof z) != Z_OK) {
        return false;
    }
    zlib.inflate(&z, Z_SYNC_FLUSH);
    bool whole = z.avail_out == 0;
    bool empty =
        z.total_out == 0 && z.avail_in == 0; /* cut short before the first byte came out, or a stream of nothing */
    zlib.inflate_end(&z);
    return empty || (whole && tfos__frame_header(first, &length));
}

/* A codec that the user states and the bytes contradict is the most common mistake with compressed files: say it at
 * once. */
static tfos_status choose_codec(tfos__stream *stream, tfos_codec asked, tfos__content content, tfos_error *error)
{
    /* That text is zlib cannot be told for sure, but it can be believed. */
    content = asked == TFOS_CODEC_ZLIB ? TFOS__CONTENT_RECORDS : content;
    tfos_codec found = detect(stream->peeked, stream->peeked_bytes, content);
    if (found == TFOS_CODEC_ZLIB && asked == TFOS_CODEC_AUTO) {
        TFOS_TRY(need_zlib(tfos__file_path(stream->file), error));
        found = inflates_to_records(stream) ? TFOS_CODEC_ZLIB : TFOS_CODEC_NONE;
    }
    stream->codec = asked == TFOS_CODEC_AUTO ? found : asked;
    if (stream->codec == found || stream->peeked_bytes == 0) {
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_CORRUPT,
                      "%s: offset 0: expected %s data, found what looks like %s: state the codec '%s' or 'auto'",
                      tfos__file_path(stream->file), asked == TFOS_CODEC_NONE ? "uncompressed" : tfos_codec_name(asked),
                      found == TFOS_CODEC_NONE ? "uncompressed data" : tfos_codec_name(found), tfos_codec_name(found));
}

static tfos_status start_inflating(tfos__stream *stream, tfos_error *error)
{
    const char *path = tfos__file_path(stream->file);
    TFOS_TRY(need_zlib(path, error));
    stream->input = malloc(INPUT_BYTES);
    if (stream->input == NULL) {
        return tfos__fail_memory(error, INPUT_BYTES);
    }
    int result = zlib.inflate_init(&stream->z, window_bits(stream->codec), ZLIB_VERSION, (int)sizeof stream->z);
    if (result != Z_OK) {
        return tfos__fail(error, result == Z_MEM_ERROR ? TFOS_NO_MEMORY : TFOS_MISSING_LIBRARY,
                          "%s: zlib cannot be used: %s", path, stream->z.msg != NULL ? stream->z.msg : "wrong version");
    }
    stream->z_open = true;
    return TFOS_OK;
}

static tfos_status set_up(tfos__stream *stream, tfos_codec codec, tfos__content content, tfos_error *error)
{
    TFOS_TRY(peek(stream, error));
    TFOS_TRY(choose_codec(stream, codec, content, error));
    tfos__file_hint_sequential(stream->file);
    return stream->codec == TFOS_CODEC_NONE ? TFOS_OK : start_inflating(stream, error);
}

tfos_status tfos__stream_open(const tfos_file_system *served, const char *path, tfos_codec codec, tfos__content content,
                              tfos__stream **out, tfos_error *error)
{
    tfos__stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        return tfos__fail_memory(error, sizeof *stream);
    }
    tfos_status status = tfos__file_open(served, path, &stream->file, error);
    if (status == TFOS_OK) {
        status = set_up(stream, codec, content, error);
    }
    if (status != TFOS_OK) {
        tfos__stream_close(stream);
        return status;
    }
    *out = stream;
    return TFOS_OK;
}

void tfos__stream_close(tfos__stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (stream->z_open) {
        zlib.inflate_end(&stream->z);
    }
    free(stream->input);
    tfos__file_close(stream->file);
    free(stream);
}

static tfos_status read_plain(tfos__stream *stream, uint8_t *to, size_t bytes, size_t *got, tfos_error *error)
{
    size_t count;
    TFOS_TRY(read_stored(stream, to, bytes, &count, error));
    int64_t size = tfos__file_size(stream->file);
    if (count == 0 && bytes > 0 && stream->consumed < size) {
        return tfos__fail(error, TFOS_TRUNCATED,
                          "%s: the file had %lld bytes when it was opened, and ends at offset %lld now",
                          tfos__file_path(stream->file), (long long)size, (long long)stream->consumed);
    }
    stream->produced += (int64_t)count;
    *got = count;
    return TFOS_OK;
}

/* Makes sure that there is input; at the end of the file decides whether the stream may end there. */
static tfos_status refill(tfos__stream *stream, tfos_error *error)
{
    if (stream->z.avail_in > 0) {
        return TFOS_OK;
    }
    size_t got;
    TFOS_TRY(read_stored(stream, stream->input, INPUT_BYTES, &got, error));
    stream->z.next_in = stream->input;
    stream->z.avail_in = (uInt)got;
    if (got == 0) {
        if (!stream->member_ended) {
            return tfos__fail(
                error, TFOS_TRUNCATED,
                "%s: the %s data is cut short: it ends at offset %lld of the compressed file, after %lld bytes of data",
                tfos__file_path(stream->file), tfos_codec_name(stream->codec), (long long)stream->consumed,
                (long long)stream->produced);
        }
        stream->ended = true;
    }
    return TFOS_OK;
}

/* A gzip file may have several members; zeros behind the last one are padding, as gzip itself treats them. */
static tfos_status next_member(tfos__stream *stream, tfos_error *error)
{
    while (stream->z.avail_in > 0 && *stream->z.next_in == 0) {
        stream->z.next_in++;
        stream->z.avail_in--;
    }
    TFOS_TRY(refill(stream, error));
    if (!stream->ended && stream->z.avail_in > 0 && *stream->z.next_in != 0) {
        if (stream->codec != TFOS_CODEC_GZIP) {
            return tfos__fail(error, TFOS_CORRUPT,
                              "%s: more data follows the end of the %s stream, at offset %lld of the compressed file",
                              tfos__file_path(stream->file), tfos_codec_name(stream->codec),
                              (long long)(stream->consumed - stream->z.avail_in));
        }
        zlib.inflate_reset(&stream->z);
        stream->member_ended = false;
    }
    return TFOS_OK;
}

/* Inflates once into `to`; *made may be 0 between members. */
static tfos_status inflate_some(tfos__stream *stream, uint8_t *to, size_t room, size_t *made, tfos_error *error)
{
    *made = 0;
    if (stream->member_ended) {
        return next_member(stream, error);
    }
    TFOS_TRY(refill(stream, error));
    stream->z.next_out = to;
    stream->z.avail_out = room > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)room;
    uInt before = stream->z.avail_out;
    int result = zlib.inflate(&stream->z, Z_NO_FLUSH);
    *made = before - stream->z.avail_out;
    stream->produced += (int64_t)*made;
    if (result == Z_STREAM_END) {
        stream->member_ended = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return tfos__fail(
            error, result == Z_MEM_ERROR ? TFOS_NO_MEMORY : TFOS_CORRUPT,
            "%s: the %s data is damaged near offset %lld of the compressed file, after %lld bytes of data: %s",
            tfos__file_path(stream->file), tfos_codec_name(stream->codec),
            (long long)(stream->consumed - stream->z.avail_in), (long long)stream->produced,
            stream->z.msg != NULL ? stream->z.msg : "not a valid stream");
    }
    return TFOS_OK;
}

static tfos_status read_compressed(tfos__stream *stream, uint8_t *to, size_t bytes, size_t *got, tfos_error *error)
{
    size_t total = 0;
    while (total < bytes && !stream->ended && !stream->failed) {
        size_t made;
        stream->failed = inflate_some(stream, to + total, bytes - total, &made, &stream->failure) != TFOS_OK;
        total += made;
    }
    if (total == 0 && stream->failed) {
        if (error != NULL) {
            *error = stream->failure;
        }
        return stream->failure.status;
    }
    *got = total;
    return TFOS_OK;
}

tfos_status tfos__stream_read(tfos__stream *stream, void *to, size_t bytes, size_t *got, tfos_error *error)
{
    if (stream->codec == TFOS_CODEC_NONE) {
        return read_plain(stream, to, bytes, got, error);
    }
    return read_compressed(stream, to, bytes, got, error);
}

int64_t tfos__stream_left(const tfos__stream *stream)
{
    int64_t size = tfos__file_size(stream->file);
    if (stream->codec != TFOS_CODEC_NONE || size < 0) {
        return -1;
    }
    return tfos__max_i64(size - stream->consumed, 0);
}

int64_t tfos__stream_stored(const tfos__stream *stream)
{
    return tfos__file_size(stream->file);
}

tfos_status tfos__stream_seek(tfos__stream *stream, int64_t offset, tfos_error *error)
{
    if (stream->codec != TFOS_CODEC_NONE || tfos__file_size(stream->file) < 0) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "%s: only an uncompressed file can be read from the middle, found %s",
                          tfos__file_path(stream->file),
                          stream->codec == TFOS_CODEC_NONE ? "a pipe" : tfos_codec_name(stream->codec));
    }
    stream->consumed = offset;
    stream->peeked_bytes = 0;
    return TFOS_OK;
}

int64_t tfos__stream_consumed(const tfos__stream *stream)
{
    return stream->consumed;
}

tfos__file *tfos__stream_file(const tfos__stream *stream)
{
    return stream->file;
}

tfos_codec tfos__stream_codec(const tfos__stream *stream)
{
    return stream->codec;
}

const char *tfos__stream_path(const tfos__stream *stream)
{
    return tfos__file_path(stream->file);
}

/* ---- writing ---- */

struct tfos__deflater {
    z_stream z;
};

tfos_status tfos__deflater_new(tfos_codec codec, int level, tfos__deflater **out, tfos_error *error)
{
    TFOS_TRY(need_zlib("output", error));
    tfos__deflater *deflater = calloc(1, sizeof *deflater);
    if (deflater == NULL) {
        return tfos__fail_memory(error, sizeof *deflater);
    }
    int result = zlib.deflate_init(&deflater->z, level, Z_DEFLATED, window_bits(codec), 8, Z_DEFAULT_STRATEGY,
                                   ZLIB_VERSION, (int)sizeof deflater->z);
    if (result != Z_OK) {
        free(deflater);
        return tfos__fail(error, result == Z_MEM_ERROR ? TFOS_NO_MEMORY : TFOS_INVALID,
                          "a %s stream of level %d cannot be made: expected a level from 1 to 9, or -1",
                          tfos_codec_name(codec), level);
    }
    *out = deflater;
    return TFOS_OK;
}

void tfos__deflater_free(tfos__deflater *deflater)
{
    if (deflater != NULL) {
        zlib.deflate_end(&deflater->z);
        free(deflater);
    }
}

tfos_status tfos__deflater_run(tfos__deflater *deflater, const void *from, size_t bytes, bool last, tfos__buffer *to,
                               tfos_error *error)
{
    enum { STEP = 64 * 1024 };
    const uint8_t *at = from;
    int result = Z_OK;
    do {
        size_t part = bytes > UINT32_MAX / 2 ? UINT32_MAX / 2 : bytes;
        deflater->z.next_in = (Bytef *)(uintptr_t)at;
        deflater->z.avail_in = (uInt)part;
        bytes -= part;
        at += part;
        bool finish = last && bytes == 0;
        do {
            TFOS_TRY(tfos__buffer_reserve(to, to->size + STEP, error));
            size_t room = to->capacity - to->size;
            deflater->z.next_out = to->data + to->size;
            deflater->z.avail_out = room > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)room;
            uInt before = deflater->z.avail_out;
            result = zlib.deflate(&deflater->z, finish ? Z_FINISH : Z_NO_FLUSH);
            assert(result != Z_STREAM_ERROR);
            to->size += before - deflater->z.avail_out;
        } while (finish ? result != Z_STREAM_END : deflater->z.avail_out == 0);
    } while (bytes > 0);
    return TFOS_OK;
}

/* Codecs: files as streams of uncompressed bytes, and compressing writers. */
#ifndef TFOS_RECORD_CODEC_H
#define TFOS_RECORD_CODEC_H

#include "base/bytes.h"
#include "fs/fs.h"
#include "tfos.h"

/* ---- reading ---- */

typedef struct tfos__stream tfos__stream;

/* What AUTO may find. A TFRecord file begins with a checksummed header, so each codec can be told for sure; text is
 * plain unless it begins like gzip. */
typedef enum tfos__content { TFOS__CONTENT_RECORDS, TFOS__CONTENT_TEXT } tfos__content;

/* `served`: see tfos__file_open. */
tfos_status tfos__stream_open(const tfos_file_system *served, const char *path, tfos_codec codec, tfos__content content,
                              tfos__stream **out, tfos_error *error);
void tfos__stream_close(tfos__stream *stream);

/* Reads up to `bytes`; *got is 0 only at the end. What comes before damage is handed out before the error. */
tfos_status tfos__stream_read(tfos__stream *stream, void *to, size_t bytes, size_t *got, tfos_error *error);

/* Uncompressed bytes that are left; -1 when unknown. */
int64_t tfos__stream_left(const tfos__stream *stream);

/* Stored bytes of the file; -1 for a pipe. */
int64_t tfos__stream_stored(const tfos__stream *stream);

/* Continues at `offset`. Only an uncompressed file can. */
tfos_status tfos__stream_seek(tfos__stream *stream, int64_t offset, tfos_error *error);

/* Stored bytes that have been read so far, for progress. */
int64_t tfos__stream_consumed(const tfos__stream *stream);

/* The file that is read; the stream's own. */
tfos__file *tfos__stream_file(const tfos__stream *stream);

/* AUTO has been resolved. */
tfos_codec tfos__stream_codec(const tfos__stream *stream);
const char *tfos__stream_path(const tfos__stream *stream);

/* ---- writing ---- */

typedef struct tfos__deflater tfos__deflater;

/* GZIP or ZLIB; level 1 to 9 or -1. */
tfos_status tfos__deflater_new(tfos_codec codec, int level, tfos__deflater **out, tfos_error *error);
void tfos__deflater_free(tfos__deflater *deflater);

/* Appends the compressed form to `to`; `last` ends the stream. */
tfos_status tfos__deflater_run(tfos__deflater *deflater, const void *from, size_t bytes, bool last, tfos__buffer *to,
                               tfos_error *error);

/* The codec that the end of a name asks for: .gz; .zlib, .zz or, as Hadoop calls it, .deflate; else none. */
tfos_codec tfos__codec_of_name(const char *path);

/* In the order of tfos_codec, with a NULL behind them. */
extern const char *const tfos__codec_names[];

#endif

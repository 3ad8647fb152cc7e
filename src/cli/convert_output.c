/* Files of TFRecords, CSV or JSON lines: rows are encoded, shuffled if that is asked for, and dealt out to the shards.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/convert.h"
#include "record/encode.h"
#include "record/json_lines.h"
#include "record/shards.h"
#include "record/shuffle.h"

struct tfos__convert_output {
    tfos__convert_format format;
    char delimiter;
    bool bytes; /* records are bytes as they are */
    tfos__encoder *encoder;
    tfos__shuffle *shuffle;
    tfos__shards *shards;
    tfos__buffer row;
    char *folder; /* of the shards; NULL: one file */
    char **paths;
    size_t count;
};

static void free_output(tfos__convert_output *output)
{
    tfos__encoder_free(output->encoder);
    tfos__shuffle_free(output->shuffle);
    tfos__buffer_reset(&output->row);
    for (size_t i = 0; output->paths != NULL && i < output->count; i++) {
        free(output->paths[i]);
    }
    free(output->paths);
    free(output->folder);
    free(output);
}

/* ---- names ---- */

static bool is_five_digits(const char *text)
{
    return strspn(text, "0123456789") >= 5;
}

/* Whether a name is one that we give to a shard, of any number of shards and any compression, or to its index:
 * part-00000-of-00004.tfrecord.gz. Such files may be removed: nothing may follow that we would not write. */
static bool is_shard_name(const char *name, const char *ending)
{
    static const char *const codecs[] = {"", ".gz", ".zlib", ".zz"};
    if (strncmp(name, "part-", 5) != 0 || !is_five_digits(name + 5) || strncmp(name + 10, "-of-", 4) != 0 ||
        !is_five_digits(name + 14) || strncmp(name + 19, ending, strlen(ending)) != 0) {
        return false;
    }
    const char *rest = name + 19 + strlen(ending);
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        size_t bytes = strlen(codecs[i]);
        const char *index = rest + bytes;
        if (strncmp(rest, codecs[i], bytes) == 0 && (*index == '\0' || strcmp(index, TFOS_INDEX_SUFFIX) == 0)) {
            return true;
        }
    }
    return false;
}

static bool is_ours(const tfos__convert_output *output, const char *name)
{
    for (size_t i = 0; i < output->count; i++) {
        const char *ours = strrchr(output->paths[i], '/') + 1;
        if (strncmp(name, ours, strlen(ours)) == 0 &&
            (name[strlen(ours)] == '\0' || strcmp(name + strlen(ours), TFOS_INDEX_SUFFIX) == 0)) {
            return true;
        }
    }
    return false;
}

/* Calls for every shard in the folder that is not of this set: data of another conversion, which must not mix with this
 * one. With `remove` it is removed, otherwise it is an error. */
static tfos_status check_others(const tfos__convert_output *output, bool remove, tfos_error *error)
{
    DIR *folder = opendir(output->folder);
    if (folder == NULL) {
        return errno == ENOENT ? TFOS_OK : tfos__fail_errno(error, errno, "%s: cannot be listed", output->folder);
    }
    tfos_status status = TFOS_OK;
    struct dirent *entry;
    while (status == TFOS_OK && (entry = readdir(folder)) != NULL) {
        if (!is_shard_name(entry->d_name, tfos__convert_format_ending(output->format)) ||
            is_ours(output, entry->d_name)) {
            continue;
        }
        if (!remove) {
            status =
                tfos__fail(error, TFOS_EXISTS,
                           "%s: holds %s of another conversion already: choose another folder, or pass --overwrite to "
                           "replace its shards",
                           output->folder, entry->d_name);
        } else if (unlinkat(dirfd(folder), entry->d_name, 0) != 0) {
            status = tfos__fail_errno(error, errno, "%s/%s: cannot be removed", output->folder, entry->d_name);
        }
    }
    closedir(folder);
    return status;
}

static tfos_status name_shards(tfos__convert_output *output, const tfos__convert_options *options, const char *path,
                               tfos_error *error)
{
    static const char *const endings[] = {"", "", ".gz", ".zlib"};
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    output->folder = strndup(path, length);
    output->count = (size_t)options->shards;
    output->paths = calloc(output->count, sizeof *output->paths);
    if (output->folder == NULL || output->paths == NULL) {
        return tfos__fail_memory(error, output->count * sizeof *output->paths);
    }
    for (size_t i = 0; i < output->count; i++) {
        if (asprintf(&output->paths[i], "%s/part-%05zu-of-%05zu%s%s", output->folder, i, output->count,
                     tfos__convert_format_ending(output->format), endings[options->output_codec]) < 0) {
            output->paths[i] = NULL;
            return tfos__fail_memory(error, length + 64);
        }
    }
    return TFOS_OK;
}

static tfos_status name_file(tfos__convert_output *output, const char *path, tfos_error *error)
{
    struct stat info;
    if (path[strlen(path) - 1] == '/' || (stat(path, &info) == 0 && S_ISDIR(info.st_mode))) {
        return tfos__fail(error, TFOS_INVALID,
                          "%s: is a folder: pass --shards N to write N files into it, or name a file", path);
    }
    output->count = 1;
    output->paths = calloc(1, sizeof *output->paths);
    if (output->paths == NULL || (output->paths[0] = strdup(path)) == NULL) {
        return tfos__fail_memory(error, strlen(path) + 1);
    }
    return TFOS_OK;
}

/* ---- opening ---- */

/* What the shuffle spills is beside the output, where there is room for as much. */
static tfos_status open_shuffle(tfos__convert_output *output, const tfos__convert_options *options, tfos_error *error)
{
    const char *slash = strrchr(output->paths[0], '/');
    char *folder = slash == NULL ? strdup(".") : strndup(output->paths[0], (size_t)(slash - output->paths[0]) + 1);
    if (folder == NULL) {
        return tfos__fail_memory(error, strlen(output->paths[0]) + 1);
    }
    tfos_status status =
        tfos__shuffle_new((uint64_t)options->seed, (size_t)options->memory, folder, &output->shuffle, error);
    free(folder);
    return status;
}

static tfos_status open_shards(tfos__convert_output *output, const tfos__convert_options *options,
                               const tfos_schema *schema, tfos_error *error)
{
    tfos__buffer header = {0};
    if (output->format == CONVERT_CSV) {
        /* Made also when it is not wanted: this is where a schema that CSV cannot hold is refused. */
        tfos_status status = tfos__csv_write_header(schema, output->delimiter, &header, error);
        if (status != TFOS_OK) {
            tfos__buffer_reset(&header);
            return status;
        }
        header.size = options->header ? header.size : 0;
    }
    tfos__shards_options shards = {.text = output->format != CONVERT_TFRECORD,
                                   .header = header.data,
                                   .header_bytes = header.size,
                                   .codec = (tfos_codec)options->output_codec,
                                   .level = (int32_t)options->level,
                                   .overwrite = options->overwrite};
    tfos_status status =
        tfos__shards_open((const char *const *)output->paths, output->count, &shards, &output->shards, error);
    tfos__buffer_reset(&header);
    return status;
}

static tfos_status open_output(tfos__convert_output *output, const tfos__convert_options *options, const char *path,
                               const tfos_schema *schema, tfos_error *error)
{
    if (options->shards > 0) {
        TFOS_TRY(name_shards(output, options, path, error));
        if (!options->overwrite) {
            TFOS_TRY(check_others(output, false, error));
        }
        TFOS_TRY(tfos__cli_folder_make(output->folder, error));
    } else {
        TFOS_TRY(name_file(output, path, error));
    }
    output->bytes = tfos_schema_kind(schema) == TFOS_RECORD_BYTES;
    if (output->format == CONVERT_TFRECORD && !output->bytes) {
        TFOS_TRY(tfos__encoder_new(schema, &output->encoder, error));
    }
    TFOS_TRY(open_shards(output, options, schema, error));
    return options->shuffle ? open_shuffle(output, options, error) : TFOS_OK;
}

int tfos__convert_output_open(const tfos__convert_options *options, tfos__convert_format format, char delimiter,
                              const char *path, const tfos_schema *schema, tfos__convert_output **out)
{
    tfos_error error;
    tfos__convert_output *output = calloc(1, sizeof *output);
    if (output == NULL) {
        tfos__cli_note("out of memory");
        return CLI_SYSTEM;
    }
    output->format = format;
    output->delimiter = delimiter;
    if (open_output(output, options, path, schema, &error) != TFOS_OK) {
        tfos__convert_output_close(output);
        return tfos__cli_fail(&error);
    }
    *out = output;
    return CLI_OK;
}

/* ---- rows ---- */

static tfos_status encode(const tfos__convert_output *output, const tfos_batch *batch, int64_t row, tfos__buffer *to,
                          tfos_error *error)
{
    if (output->format == CONVERT_CSV) {
        return tfos__csv_write_row(batch, row, output->delimiter, to, error);
    }
    if (output->format == CONVERT_JSONL) {
        TFOS_TRY(tfos__json_write_row(batch, row, to, error));
        return tfos__buffer_append(to, "\n", 1, error);
    }
    if (output->bytes) {
        const tfos_vector *vector = tfos_batch_column(batch, 0);
        const uint8_t *data = (const uint8_t *)vector->data + vector->offsets[row];
        return tfos__buffer_append(to, data, (size_t)(vector->offsets[row + 1] - vector->offsets[row]), error);
    }
    return tfos__encoder_row(output->encoder, batch, row, to, error);
}

static tfos_status put(tfos__convert_output *output, const void *row, size_t bytes, tfos_error *error)
{
    return output->shuffle != NULL ? tfos__shuffle_add(output->shuffle, row, bytes, error)
                                   : tfos__shards_write(output->shards, row, bytes, error);
}

tfos_status tfos__convert_output_batch(tfos__convert_output *output, const tfos_batch *batch, tfos_error *error)
{
    for (int64_t row = 0; row < tfos_batch_rows(batch); row++) {
        output->row.size = 0;
        TFOS_TRY(encode(output, batch, row, &output->row, error));
        TFOS_TRY(put(output, output->row.data, output->row.size, error));
    }
    return TFOS_OK;
}

void tfos__convert_rows_reset(tfos__convert_rows *rows)
{
    tfos__buffer_reset(&rows->bytes);
    free(rows->ends);
    *rows = (tfos__convert_rows){0};
}

tfos_status tfos__convert_output_encode(const tfos__convert_output *output, const tfos_batch *batch,
                                        tfos__convert_rows *out, tfos_error *error)
{
    for (int64_t row = 0; row < tfos_batch_rows(batch); row++) {
        TFOS_TRY(tfos__array_reserve(&out->ends, out->count, &out->capacity, sizeof *out->ends, error));
        TFOS_TRY(encode(output, batch, row, &out->bytes, error));
        out->ends[out->count++] = out->bytes.size;
    }
    return TFOS_OK;
}

tfos_status tfos__convert_output_rows(tfos__convert_output *output, const tfos__convert_rows *rows, tfos_error *error)
{
    size_t at = 0;
    for (size_t i = 0; i < rows->count; i++) {
        TFOS_TRY(put(output, rows->bytes.data + at, rows->ends[i] - at, error));
        at = rows->ends[i];
    }
    return TFOS_OK;
}

static tfos_status write_shuffled(void *context, const void *record, size_t bytes, tfos_error *error)
{
    return tfos__shards_write(context, record, bytes, error);
}

tfos_status tfos__convert_output_drain(tfos__convert_output *output, tfos_error *error)
{
    return output->shuffle == NULL ? TFOS_OK
                                   : tfos__shuffle_drain(output->shuffle, write_shuffled, output->shards, error);
}

tfos_status tfos__convert_output_commit(tfos__convert_output *output, tfos_error *error)
{
    tfos__shards *shards = output->shards;
    TFOS_TRY(tfos__shards_sync(shards, error));
    output->shards = NULL;
    /* A folder has all shards of one conversion, and none of another: no signal comes between. */
    tfos__cli_signals_hold();
    tfos_status status = tfos__shards_commit(shards, error);
    if (status == TFOS_OK) {
        tfos__cli_folders_forget();
        status = output->folder != NULL ? check_others(output, true, error) : TFOS_OK;
    }
    tfos__cli_signals_release();
    return status;
}

void tfos__convert_output_close(tfos__convert_output *output)
{
    if (output != NULL) {
        tfos__shards_abort(output->shards);
        free_output(output);
        tfos__cli_folders_remove();
        tfos__cli_folders_forget();
    }
}

void tfos__convert_output_progress(void *context, tfos_progress *out)
{
    const tfos__convert_output *output = context;
    *out = (tfos_progress){.records = tfos__shards_records(output->shards)};
}

size_t tfos__convert_output_files(const tfos__convert_output *output)
{
    return output->count;
}

const char *tfos__convert_output_file(const tfos__convert_output *output, size_t index)
{
    return output->paths[index];
}

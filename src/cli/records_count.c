/* tfos records count, tfos records index: numbers and offsets of records. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "cli/cli.h"
#include "record/json_lines.h"

typedef struct work work;

typedef struct count_options {
    tfos__cli_common common;
    bool force;
    const work *work; /* what the command does with each file, and at the end */
} count_options;

/* Files are worked through one by one; a file counts as done when it is. */
typedef struct count_state {
    int64_t total_bytes;
    atomic_llong done_bytes;
    atomic_llong records;
    tfos__buffer json;
} count_state;

static void ask(void *context, tfos_progress *out)
{
    count_state *self = context;
    out->total_bytes = self->total_bytes;
    out->done_bytes = atomic_load(&self->done_bytes);
    out->records = atomic_load(&self->records);
}

/* An object is collected and printed as a whole: a file that fails leaves no half of one behind. */
static tfos_status begin_json(tfos__buffer *json, const char *path, size_t number, int64_t records, tfos_error *error)
{
    TFOS_TRY(tfos__buffer_printf(json, error, "%s\n  {\"path\": ", number == 0 ? "{\"files\": [" : ","));
    TFOS_TRY(tfos__json_write_string(path, strlen(path), json, error));
    return tfos__buffer_printf(json, error, ", \"records\": %lld", (long long)records);
}

static void print_json(const tfos__buffer *json, int64_t records)
{
    tfos__cli_write(json->data, json->size);
    tfos__cli_print("],\n \"records\": %lld}\n", (long long)records);
}

/* ---- count ---- */

static tfos_status count_file(const count_options *options, const tfos_paths *paths, size_t at, count_state *counted,
                              tfos_error *error)
{
    int64_t records;
    TFOS_TRY(tfos_records_count(paths->path[at], (tfos_codec)options->common.codec, &records, error));
    atomic_fetch_add(&counted->done_bytes, paths->bytes[at]);
    atomic_fetch_add(&counted->records, records);
    if (options->common.json) {
        TFOS_TRY(begin_json(&counted->json, paths->path[at], at, records, error));
        return tfos__buffer_printf(&counted->json, error, "}");
    }
    tfos__cli_print("%12lld  %s\n", (long long)records, paths->path[at]);
    return TFOS_OK;
}

static void end_count(const count_options *options, const tfos_paths *paths, const count_state *counted)
{
    int64_t total = atomic_load(&counted->records);
    if (options->common.json) {
        print_json(&counted->json, total);
    } else if (paths->count > 1) {
        tfos__cli_print("%12lld  total\n", (long long)total);
    }
}

/* ---- index ---- */

static bool is_fresh(const char *path, int64_t *records)
{
    tfos_index *index;
    if (tfos_index_open(path, &index, NULL) != TFOS_OK) {
        return false;
    }
    *records = tfos_index_records(index);
    tfos_index_free(index);
    return true;
}

static tfos_status index_file(const count_options *options, const tfos_paths *paths, size_t at, count_state *counted,
                              tfos_error *error)
{
    int64_t records = 0;
    const char *path = paths->path[at];
    bool fresh = !options->force && is_fresh(path, &records);
    if (!fresh) {
        TFOS_TRY(tfos_index_build(path, &records, error));
    }
    atomic_fetch_add(&counted->done_bytes, paths->bytes[at]);
    atomic_fetch_add(&counted->records, records);
    if (options->common.json) {
        TFOS_TRY(begin_json(&counted->json, path, at, records, error));
        return tfos__buffer_printf(&counted->json, error, ", \"built\": %s}", fresh ? "false" : "true");
    }
    if (!options->common.quiet) {
        tfos__cli_print("%s  %12lld records  %s%s\n", fresh ? "fresh" : "built", (long long)records, path,
                        TFOS_INDEX_SUFFIX);
    }
    return TFOS_OK;
}

static void end_index(const count_options *options, const tfos_paths *paths, const count_state *counted)
{
    (void)paths;
    if (options->common.json) {
        print_json(&counted->json, atomic_load(&counted->records));
    }
}

/* ---- both ---- */

struct work {
    const char *verb;
    tfos_status (*file)(const count_options *options, const tfos_paths *paths, size_t at, count_state *counted,
                        tfos_error *error);
    void (*end)(const count_options *options, const tfos_paths *paths, const count_state *counted);
};

static int work_through(const void *context, const tfos_paths *paths)
{
    const count_options *options = context;
    const work *self = options->work;
    tfos_error error;
    tfos_status status = TFOS_OK;
    count_state counted = {.total_bytes = paths->total_bytes};
    tfos__cli_progress_start(self->verb, ask, &counted, options->common.quiet);
    for (size_t i = 0; i < paths->count && status == TFOS_OK; i++) {
        status = self->file(options, paths, i, &counted, &error);
    }
    tfos__cli_progress_stop();
    if (status == TFOS_OK) {
        self->end(options, paths, &counted);
    }
    tfos__buffer_reset(&counted.json);
    return status == TFOS_OK ? CLI_OK : tfos__cli_fail(&error);
}

static int run_count(int argc, char **argv)
{
    static const work self = {"counting", count_file, end_count};
    count_options options = {.work = &self};
    return tfos__cli_run_on_paths(&tfos__cli_records_count, argc, argv, &options, work_through);
}

static int run_index(int argc, char **argv)
{
    static const work self = {"indexing", index_file, end_index};
    count_options options = {.work = &self};
    return tfos__cli_run_on_paths(&tfos__cli_records_index, argc, argv, &options, work_through);
}

static const tfos__cli_option count_table[] = {
    CLI_OPTION_CODEC(count_options, "compression of the files: auto (default), none, gzip or zlib"),
    CLI_OPTION_JSON(count_options, "one JSON object instead of lines"),
    CLI_OPTION_QUIET(count_options),
};

static const tfos__cli_option index_table[] = {
    {.name = "force",
     .kind = CLI_FLAG,
     .offset = offsetof(count_options, force),
     .help = "build indexes again that are fresh"},
    CLI_OPTION_JSON(count_options, "one JSON object instead of lines"),
    CLI_OPTION_QUIET(count_options),
};

const tfos__cli_command tfos__cli_records_count = {
    .name = "records count",
    .summary = "count the records of each file and of all",
    .synopsis = "tfos records count [OPTIONS] INPUT…",
    .details =
        "A file with a fresh index is counted by it; otherwise the headers of its records are followed and checked,\n"
        "the records themselves are not read (`tfos records verify` does that).\n\n"
        "Examples:\n"
        "  tfos records count data/\n"
        "  tfos records count --json 'data/part-*.tfrecord.gz'\n",
    .options = count_table,
    .option_count = sizeof count_table / sizeof count_table[0],
    .least_inputs = 1,
    .missing_input = "expected a file, a folder or a glob to count",
    .run = run_count,
};

const tfos__cli_command tfos__cli_records_index = {
    .name = "records index",
    .summary = "write an index beside each file, for seeking and splitting",
    .synopsis = "tfos records index [OPTIONS] INPUT…",
    .details = "The index of FILE is FILE" TFOS_INDEX_SUFFIX
               ". A fresh one is left as it is; one that is damaged or older than\n"
               "its file is built again. Compressed files cannot be indexed.\n\n"
               "Examples:\n"
               "  tfos records index data/\n"
               "  tfos records index --force data/train.tfrecord\n",
    .options = index_table,
    .option_count = sizeof index_table / sizeof index_table[0],
    .least_inputs = 1,
    .missing_input = "expected a file, a folder or a glob to index",
    .run = run_index,
};

/* tfos records count, tfos records index: numbers and offsets of records. */
#include <stdatomic.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "record/json_lines.h"

typedef struct count_options {
    tfos__cli_common common;
    bool force;
} count_options;

/* Files are worked through one by one; a file counts as done when it is. */
typedef struct count_state {
    int64_t total_bytes;
    atomic_llong done_bytes;
    atomic_llong records;
} count_state;

static void ask(void *context, tfos_progress *out)
{
    count_state *self = context;
    out->total_bytes = self->total_bytes;
    out->done_bytes = atomic_load(&self->done_bytes);
    out->records = atomic_load(&self->records);
}

static void print_json_path(const char *path)
{
    tfos__buffer text = {0};
    if (tfos__json_write_string(path, strlen(path), &text, NULL) == TFOS_OK) {
        tfos__cli_write(text.data, text.size);
    }
    tfos__buffer_reset(&text);
}

/* ---- count ---- */

static int count_files(const count_options *options, const tfos_paths *paths, count_state *counted)
{
    bool json = options->common.json;
    tfos__cli_print("%s", json ? "{\"files\": [" : "");
    for (size_t i = 0; i < paths->count; i++) {
        int64_t records;
        tfos_error error;
        if (tfos_records_count(paths->path[i], (tfos_codec)options->common.codec, &records, &error) != TFOS_OK) {
            return tfos__cli_fail(&error);
        }
        atomic_fetch_add(&counted->done_bytes, paths->bytes[i]);
        atomic_fetch_add(&counted->records, records);
        if (json) {
            tfos__cli_print("%s\n  {\"path\": ", i == 0 ? "" : ",");
            print_json_path(paths->path[i]);
            tfos__cli_print(", \"records\": %lld}", (long long)records);
        } else {
            tfos__cli_print("%12lld  %s\n", (long long)records, paths->path[i]);
        }
    }
    long long total = atomic_load(&counted->records);
    if (json) {
        tfos__cli_print("],\n \"records\": %lld}\n", total);
    } else if (paths->count > 1) {
        tfos__cli_print("%12lld  total\n", total);
    }
    return CLI_OK;
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

static int index_files(const count_options *options, const tfos_paths *paths, count_state *counted)
{
    bool json = options->common.json;
    tfos__cli_print("%s", json ? "{\"files\": [" : "");
    for (size_t i = 0; i < paths->count; i++) {
        int64_t records = 0;
        tfos_error error;
        bool fresh = !options->force && is_fresh(paths->path[i], &records);
        if (!fresh && tfos_index_build(paths->path[i], &records, &error) != TFOS_OK) {
            return tfos__cli_fail(&error);
        }
        atomic_fetch_add(&counted->done_bytes, paths->bytes[i]);
        atomic_fetch_add(&counted->records, records);
        if (json) {
            tfos__cli_print("%s\n  {\"path\": ", i == 0 ? "" : ",");
            print_json_path(paths->path[i]);
            tfos__cli_print(", \"records\": %lld, \"built\": %s}", (long long)records, fresh ? "false" : "true");
        } else if (!options->common.quiet) {
            tfos__cli_print("%s  %12lld records  %s%s\n", fresh ? "fresh" : "built", (long long)records, paths->path[i],
                            TFOS_INDEX_SUFFIX);
        }
    }
    if (json) {
        tfos__cli_print("],\n \"records\": %lld}\n", (long long)atomic_load(&counted->records));
    }
    return CLI_OK;
}

/* ---- both ---- */

typedef int (*work_function)(const count_options *options, const tfos_paths *paths, count_state *counted);

static int run(const tfos__cli_command *command, const char *verb, work_function work, int argc, char **argv)
{
    count_options options = {0};
    tfos__cli_inputs inputs;
    int code;
    if (!tfos__cli_parse(command, argc, argv, &options, &inputs, &code)) {
        return code;
    }
    tfos_paths *paths;
    tfos_error error;
    if (tfos_paths_expand(inputs.text, inputs.count, &paths, &error) == TFOS_OK) {
        count_state counted = {.total_bytes = paths->total_bytes};
        tfos__cli_progress_start(verb, ask, &counted, options.common.quiet);
        code = work(&options, paths, &counted);
        tfos__cli_progress_stop();
        tfos_paths_free(paths);
    } else {
        code = tfos__cli_fail(&error);
    }
    free(inputs.text);
    return code;
}

static int run_count(int argc, char **argv)
{
    return run(&tfos__cli_records_count, "counting", count_files, argc, argv);
}

static int run_index(int argc, char **argv)
{
    return run(&tfos__cli_records_index, "indexing", index_files, argc, argv);
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

/* The two ends of `tfos records convert`: rows from any format, files of any format. */
#ifndef TFOS_CLI_CONVERT_H
#define TFOS_CLI_CONVERT_H

#include "cli/cli.h"
#include "record/csv.h"

typedef enum tfos__convert_format { CONVERT_TFRECORD, CONVERT_CSV, CONVERT_JSONL } tfos__convert_format;

typedef struct tfos__convert_options {
    tfos__cli_common common;
    int from; /* a tfos__convert_format plus one; 0: by the name */
    int to;
    bool header;
    const char *delimiter;
    const char *label;
    tfos__cli_texts folds;
    int64_t shards; /* 0: OUTPUT is one file */
    int output_codec;
    int64_t level;
    bool shuffle;
    int64_t seed;
    int64_t memory;
    bool overwrite;
} tfos__convert_options;

/* The format that the end of a name asks for, compression left aside; `otherwise` when it says nothing. */
tfos__convert_format tfos__convert_format_of(const char *path, tfos__convert_format otherwise);

/* The ending of a file's name: ".tfrecord", … */
const char *tfos__convert_format_ending(tfos__convert_format format);

/* ---- rows in (convert_input.c) ---- */

typedef struct tfos__convert_input tfos__convert_input;

/* Finds the schema, which may take a pass over the data; `to` is what the rows are for. `csv` says how CSV is read. All
 * arguments live as long as the input. Returns an exit code; what is wrong has been reported. */
int tfos__convert_input_open(const tfos__convert_options *options, tfos__convert_format format, tfos__convert_format to,
                             const tfos__csv_options *csv, const tfos_paths *paths, tfos__convert_input **out);

/* The schema of the batches. */
const tfos_schema *tfos__convert_input_schema(const tfos__convert_input *input);

/* The next batch; END after the last. */
tfos_status tfos__convert_input_next(tfos__convert_input *input, tfos_batch **out, tfos_error *error);

/* A tfos__cli_progress_function. */
void tfos__convert_input_progress(void *input, tfos_progress *out);
void tfos__convert_input_close(tfos__convert_input *input);

/* ---- files out (convert_output.c) ---- */

typedef struct tfos__convert_output tfos__convert_output;

/* Opens hidden files that become `path`, or the shards in the folder `path`. */
int tfos__convert_output_open(const tfos__convert_options *options, tfos__convert_format format, char delimiter,
                              const char *path, const tfos_schema *schema, tfos__convert_output **out);

tfos_status tfos__convert_output_batch(tfos__convert_output *output, const tfos_batch *batch, tfos_error *error);

/* After the last batch: hands on what the shuffle holds. */
tfos_status tfos__convert_output_drain(tfos__convert_output *output, tfos_error *error);

/* Lets the files appear. Nothing is left of them when it fails. */
tfos_status tfos__convert_output_commit(tfos__convert_output *output, tfos_error *error);

/* Throws away what was not committed. */
void tfos__convert_output_close(tfos__convert_output *output);

/* A tfos__cli_progress_function: records that went to the files so far. Not while committing. */
void tfos__convert_output_progress(void *output, tfos_progress *out);

size_t tfos__convert_output_files(const tfos__convert_output *output);
const char *tfos__convert_output_file(const tfos__convert_output *output, size_t index);

#endif

/* The two ends of `tfos records convert`: rows from any format, files of any format. */
#ifndef TFOS_CLI_CONVERT_H
#define TFOS_CLI_CONVERT_H

#include "cli/cli.h"
#include "record/csv.h"
#include "record/shards.h"

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
    int64_t batch_rows; /* most rows of a batch that is read; 0: as it comes */
    bool exact;         /* batches of TFRecords have so many, whatever files and bytes they are */
} tfos__convert_options;

/* The format that the end of a name asks for, compression left aside; `otherwise` when it says nothing. */
tfos__convert_format tfos__convert_format_of(const char *path, tfos__convert_format otherwise);

/* A delimiter as it is given: the name of one, or the character itself. False: it is neither. */
bool tfos__convert_delimiter_parse(const char *text, char *out);

/* Between the fields of a file of CSV, by its name: a tab for .tsv, also a compressed one. */
char tfos__convert_delimiter_of(const char *path);

/* The ending of a file's name: ".tfrecord", … */
const char *tfos__convert_format_ending(tfos__convert_format format);

/* ---- what is made of the options (convert_plan.c) ---- */

/* In the order of the formats, behind "auto". */
extern const char *const tfos__convert_format_names[];

typedef struct tfos__convert_plan {
    tfos__convert_format from;
    tfos__convert_format to;
    tfos__csv_options csv; /* of the input */
    char delimiter;        /* of the output */
    tfos__csv_fold folds[CLI_MAX_TEXTS];
} tfos__convert_plan;

/* `first` is the first of the inputs as it was given; `paths` are the files of all. Options that would be silently
 * without effect are refused. Returns an exit code; what is wrong has been reported. The caller resets the plan in any
 * case. */
int tfos__convert_plan_make(const tfos__convert_options *options, const tfos_paths *paths, const char *first,
                            const char *output, tfos__convert_plan *plan);
void tfos__convert_plan_reset(tfos__convert_plan *plan);

/* Lines of the table of options, for a struct that begins like a tfos__convert_options. */
#define CONVERT_OPTIONS_CSV                                                                                            \
    {.name = "header",                                                                                                 \
     .kind = CLI_FLAG,                                                                                                 \
     .offset = offsetof(tfos__convert_options, header),                                                                \
     .help = "CSV files begin with the names of the columns (default)"},                                               \
        {.name = "no-header",                                                                                          \
         .kind = CLI_UNFLAG,                                                                                           \
         .offset = offsetof(tfos__convert_options, header),                                                            \
         .help = "they do not: columns are c0, c1, …"},                                                                \
        {.name = "delimiter",                                                                                          \
         .value = "CHARACTER",                                                                                         \
         .kind = CLI_TEXT,                                                                                             \
         .offset = offsetof(tfos__convert_options, delimiter),                                                         \
         .help = "between the fields of CSV: a character, or tab, semicolon, pipe, space (default comma; tab for "     \
                 ".tsv)"},                                                                                             \
        {.name = "label",                                                                                              \
         .value = "SIDE[=NAME]",                                                                                       \
         .kind = CLI_TEXT,                                                                                             \
         .offset = offsetof(tfos__convert_options, label),                                                             \
         .help = "call the first or last column of CSV input `label`, or NAME"},                                       \
    {                                                                                                                  \
        .name = "fold", .value = "NAME=START:END", .kind = CLI_TEXTS,                                                  \
        .offset = offsetof(tfos__convert_options, folds),                                                              \
        .help = "make one list of the columns START to END - 1 of CSV input, counted from 0, or of those from the "    \
                "name START of the header to the name END; may be given several times"                                 \
    }

#define CONVERT_OPTIONS_FILES                                                                                          \
    {.name = "shards",                                                                                                 \
     .value = "N",                                                                                                     \
     .kind = CLI_INTEGER,                                                                                              \
     .offset = offsetof(tfos__convert_options, shards),                                                                \
     .least = 1,                                                                                                       \
     .most = TFOS__SHARDS_MAX,                                                                                         \
     .help = "OUTPUT is a folder: write part-00000-of-0000N and so on into it, row i to part i mod N"},                \
        {.name = "codec",                                                                                              \
         .value = "CODEC",                                                                                             \
         .kind = CLI_CHOICE,                                                                                           \
         .offset = offsetof(tfos__convert_options, output_codec),                                                      \
         .choices = tfos__codec_names,                                                                                 \
         .help = "compression of the output: auto (default: by the end of its name; shards have none), none, gzip or " \
                 "zlib"},                                                                                              \
    {                                                                                                                  \
        .name = "level", .value = "N", .kind = CLI_INTEGER, .offset = offsetof(tfos__convert_options, level),          \
        .least = 1, .most = 9, .help = "level of compression, 1 (fast) to 9 (small)"                                   \
    }

#define CONVERT_OPTION_INPUT_CODEC                                                                                     \
    {                                                                                                                  \
        .name = "input-codec", .value = "CODEC", .kind = CLI_CHOICE,                                                   \
        .offset = offsetof(tfos__convert_options, common.codec), .choices = tfos__codec_names,                         \
        .help = "compression of the input: auto (default), none, gzip or zlib"                                         \
    }

/* ---- rows in (convert_input.c) ---- */

typedef struct tfos__convert_input tfos__convert_input;

/* Finds the schema, which may take a pass over the data; `to` is what the rows are for. `csv` says how CSV is read. All
 * arguments live as long as the input. Returns an exit code; what is wrong has been reported. */
int tfos__convert_input_open(const tfos__convert_options *options, tfos__convert_format format, tfos__convert_format to,
                             const tfos__csv_options *csv, const tfos_paths *paths, tfos__convert_input **out);

/* The schema of the batches. */
const tfos_schema *tfos__convert_input_schema(const tfos__convert_input *input);

/* Before the first batch: the batches are to have this schema, with columns of the one before, or some of them. Takes
 * it over. */
void tfos__convert_input_declare(tfos__convert_input *input, tfos_schema *schema);

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

/* The same in two steps: rows as they are in a file, one behind the other, which several threads may make at once, and
 * their way into the files. `{0}` has none; its owner resets it. */
typedef struct tfos__convert_rows {
    tfos__buffer bytes;
    size_t *ends; /* of each row, in the bytes */
    size_t count;
    size_t capacity;
} tfos__convert_rows;

tfos_status tfos__convert_output_encode(const tfos__convert_output *output, const tfos_batch *batch,
                                        tfos__convert_rows *out, tfos_error *error);
tfos_status tfos__convert_output_rows(tfos__convert_output *output, const tfos__convert_rows *rows, tfos_error *error);
void tfos__convert_rows_reset(tfos__convert_rows *rows);

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

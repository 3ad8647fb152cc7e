/* What the files of `tfos infer` share. */
#ifndef TFOS_CLI_INFER_H
#define TFOS_CLI_INFER_H

#include "cli/convert.h"
#include "cli/submit.h"
#include "tensorflow/saved_model.h"

/* Formats of tables that only Spark reads, behind those of `records convert`. */
typedef enum tfos__infer_format { INFER_PARQUET = CONVERT_JSONL + 1, INFER_ORC } tfos__infer_format;

typedef struct tfos__infer_options {
    tfos__convert_options convert; /* first: tables of options are shared */
    const char *model;
    const char *tags;
    const char *signature;
    tfos__cli_texts data;
    const char *output;
    tfos__cli_texts inputs;  /* COLUMN=TENSOR */
    tfos__cli_texts results; /* TENSOR=COLUMN */
    tfos__cli_texts keep;
    tfos__cli_texts libraries;
    int64_t batch_rows; /* 0: nothing was said */
    const char *python;
    const char *tensorflow;
    tfos__cli_spark spark;
    tfos__cli_inputs words; /* behind --, for spark-submit */
} tfos__infer_options;

enum { INFER_BATCH_ROWS = 1024, INFER_JSON = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE };

/* In the order of the formats, behind "auto". */
extern const char *const tfos__infer_format_names[];

/* What was asked for (0: nothing), or else by the end of a name, also of those that only Spark has. */
int tfos__infer_format_of(int given, const char *path);

/* What was written. */
typedef struct tfos__infer_outcome {
    int64_t rows;
    double seconds;
    json_object *files;
} tfos__infer_outcome;

/* Says what was written, as it was asked for. */
void tfos__infer_report(const tfos__infer_options *options, const tfos__infer_outcome *outcome);

/* Each does it and returns the exit code: on this machine; on Spark; shows what the model takes and gives. */
int tfos__infer_here(const tfos__infer_options *options);
int tfos__infer_on_spark(const tfos__infer_options *options);
int tfos__infer_show(const tfos__infer_options *options);

#endif

/* What the files of `tfos train` share. */
#ifndef TFOS_CLI_TRAIN_H
#define TFOS_CLI_TRAIN_H

#include <json-c/json.h>

#include "cli/cli.h"
#include "cli/submit.h"

typedef struct tfos__cli_train {
    json_object *options;        /* of the trainer */
    const char *const *settings; /* of its cluster: NULL-terminated key=value */
    int64_t nodes;
    int64_t restarts;
    bool quiet;
    bool json;
    const tfos__cli_spark *spark;
    const char *const *words; /* further ones for spark-submit */
    size_t word_count;
    const char *tensorflow; /* of executors; NULL: whichever there is */
} tfos__cli_train;

/* Trains on this machine, without Spark. Returns the exit code. */
int tfos__cli_train_here(const tfos__cli_train *train);

/* Trains on Spark, with the same outcome. Options that make no sense are refused here already, as far as that is known
 * without Spark. */
int tfos__cli_train_on_spark(const tfos__cli_train *train);

/* Says what has come of it: `value` of the first worker, which may be NULL, and `history`. */
void tfos__cli_train_report(const tfos__cli_train *train, json_object *value, json_object *history);

/* Says that it was stopped, and what to do. Returns CLI_INTERRUPTED. */
int tfos__cli_train_stopped(const tfos__cli_train *train, bool here);

#endif

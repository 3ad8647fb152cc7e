/* Commands as Spark applications: `tfos … --master URL` runs a class of our jar by spark-submit, in a child of this
 * process, and waits for its answer.
 *
 *   tfos infer --master …        spark-submit --class … tfos.jar KEY VALUE KEY VALUE …
 *        │  ◄── stdout ──────────  tfos: {"say": "a line for people"}
 *        │                         tfos: {"progress": {"tasks": 40, "done": 12}}
 *        │                         tfos: {"answer": {…}}             or
 *        │                         tfos: {"failed": {"status": "MISMATCH", "message": "…"}}
 *
 * What the class is told are words in pairs; it answers with lines of JSON on stdout (org.tfos.spark.Command). What
 * else Spark writes is kept back, and its end shown if there is no answer. More words than a command line has room for
 * come by stdin, each with a zero behind it, and the one word on the command line is "-". */
#ifndef TFOS_CLI_SUBMIT_H
#define TFOS_CLI_SUBMIT_H

#include <json-c/json.h>

#include "cli/cli.h"

/* Words of a command line, which end with a NULL. `{0}` has none. */
typedef struct tfos__cli_words {
    char **at;
    size_t count;
    size_t capacity;
} tfos__cli_words;

tfos_status tfos__cli_words_add(tfos__cli_words *words, const char *word, tfos_error *error);

/* A key and its value, which may be NULL: then there is nothing to be added. */
tfos_status tfos__cli_words_pair(tfos__cli_words *words, const char *key, const char *value, tfos_error *error);
void tfos__cli_words_reset(tfos__cli_words *words);

/* What a command has for it among its options. */
typedef struct tfos__cli_spark {
    const char *master;       /* NULL: no Spark */
    tfos__cli_texts settings; /* of Spark, KEY=VALUE */
    bool verbose;             /* all that Spark writes is shown */
} tfos__cli_spark;

/* Lines of the table of options, for a struct with a member `spark`. */
#define CLI_OPTION_MASTER(type)                                                                                        \
    {                                                                                                                  \
        .name = "master", .value = "URL", .kind = CLI_TEXT, .offset = offsetof(type, spark.master),                    \
        .help =                                                                                                        \
            "do it on Spark, by spark-submit: yarn, spark://HOST:PORT, k8s://…, local[N]. Options of spark-submit "  \
            "stand at the end, behind --"                                                                              \
    }
#define CLI_OPTION_CONF(type)                                                                                          \
    {                                                                                                                  \
        .name = "conf", .value = "KEY=VALUE", .kind = CLI_TEXTS, .offset = offsetof(type, spark.settings),             \
        .help = "with --master: a setting of Spark; may be given several times"                                        \
    }
#define CLI_OPTION_VERBOSE(type)                                                                                       \
    {                                                                                                                  \
        .name = "verbose", .letter = 'v', .kind = CLI_FLAG, .offset = offsetof(type, spark.verbose),                   \
        .help = "with --master: show all that Spark writes"                                                            \
    }

/* Options of Spark where there is none are refused: returns CLI_USAGE, having said so. */
int tfos__cli_spark_check(const tfos__cli_spark *spark);

/* Adds the setting that tells executors where TensorFlow is, unless `path` is NULL. *setting is what the caller frees
 * behind the last use of `spark`. Returns the exit code, having said what is wrong. */
int tfos__cli_spark_tensorflow(tfos__cli_spark *spark, const char *path, char **setting);

typedef struct tfos__cli_application {
    const char *name;       /* of the application */
    const char *main_class; /* of our jar */
    const tfos__cli_spark *spark;
    const char *const *options; /* further words for spark-submit */
    size_t option_count;
    const tfos__cli_words *order; /* what the class is told */
    const char *python;           /* that was named, beside which a spark-submit may be; or NULL */
    bool quiet;                   /* lines for people are left out */
    bool no_tasks;                /* how many of its tasks are done tells nothing, and is not shown */
    int64_t grace_ms;             /* that it has when it was told to end; 0: 20 s */
} tfos__cli_application;

/* Runs the class to its end. Ctrl-C ends it in good order. Returns the exit code, having said what is wrong; with
 * CLI_OK *answer is what the class has answered, which is the caller's. */
int tfos__cli_submit(const tfos__cli_application *application, json_object **answer);

/* ---- between the files ---- */

/* Where spark-submit is. */
tfos_status tfos__cli_submit_find(const char *python, char *out, size_t bytes, tfos_error *error);

/* Where our jar is. */
tfos_status tfos__cli_submit_jar(char *out, size_t bytes, tfos_error *error);

/* Runs these words until they have ended, with this file as their stdin. The application's `python` is PYSPARK_PYTHON
 * for them, unless it is NULL or set already. */
int tfos__cli_submit_run(char *const *words, int in, const tfos__cli_application *application, json_object **answer);

#endif

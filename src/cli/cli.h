/* The command tfos: what its files share.
 *
 * Data goes to stdout, everything else to stderr. A command is a table of options and a function; the table also makes
 * its help. */
#ifndef TFOS_CLI_CLI_H
#define TFOS_CLI_CLI_H

#include <signal.h>
#include <stdio.h>

#include "base/bytes.h"
#include "column/schema.h"
#include "record/codec.h"
#include "record/scan.h"
#include "tfos.h"

/* ---- exit codes (exit.c) ---- */

enum {
    CLI_OK = 0,
    CLI_BAD_DATA = 1,
    CLI_USAGE = 2,
    CLI_SYSTEM = 3,
    CLI_REFUSED = 4,
    CLI_INTERRUPTED = 130,
    CLI_PIPE_CLOSED = 141,
};

int tfos__cli_exit_code(tfos_status status);

/* The table of exit codes, as `--help` shows it. */
void tfos__cli_print_exit_codes(void);

/* The same, of a command that has codes of its own. */
typedef struct tfos__cli_code {
    int code;
    const char *text;
} tfos__cli_code;

void tfos__cli_print_codes(const tfos__cli_code *codes, size_t count);

/* Prints "tfos: message" and returns the exit code of the error. */
int tfos__cli_fail(const tfos_error *error);

/* Prints "tfos: …" for a wrong command line and returns CLI_USAGE. */
int tfos__cli_fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints "tfos: …" as it is: a note or a warning. */
void tfos__cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Handlers for Ctrl-C and the like, which remove what is half written. */
void tfos__cli_signals_init(void);

/* What is to be done at a signal that ends a process, if it is not to be ignored, which nohup and background jobs of a
 * shell ask for. */
void tfos__cli_signal_take(int number, const struct sigaction *action, struct sigaction *before);

/* For a command that has code of others in it: what is half written is removed also when that crashes. */
void tfos__cli_signals_crash(void);

/* Between these two what is written to stderr is kept, and shown at the end if it is wanted; it is shown in any case if
 * the process crashes. For libraries that have much to say when they are loaded. */
void tfos__cli_stderr_hold(void);
void tfos__cli_stderr_release(bool show);

/* For a command that serves until it is told to end: SIGTERM is then the way to end it, and success. */
void tfos__cli_signals_serve(void);

/* Between these two the process does not end by a signal: one that comes is acted on at the release. For the moment in
 * which several files take their names. */
void tfos__cli_signals_hold(void);
void tfos__cli_signals_release(void);

/* Folders that this process makes are removed again, if empty, when it is interrupted or fails. Makes `path` and those
 * above it. */
tfos_status tfos__cli_folder_make(const char *path, tfos_error *error);
void tfos__cli_folders_forget(void);
void tfos__cli_folders_remove(void);

/* ---- stdout (exit.c) ---- */

/* These return false once stdout has failed; tfos__cli_end_output then knows why. */
bool tfos__cli_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool tfos__cli_write(const void *bytes, size_t count);

/* Flushes stdout. Returns `code`, or what a failure of stdout makes of it: CLI_PIPE_CLOSED, quietly, when nobody reads.
 */
int tfos__cli_end_output(int code);

/* ---- options (options.c) ---- */

typedef enum tfos__cli_kind {
    CLI_FLAG,   /* bool, set to true */
    CLI_UNFLAG, /* bool, set to false */
    CLI_TEXT,   /* const char * */
    CLI_TEXTS,  /* tfos__cli_texts, may be given several times */
    CLI_NAMES,  /* tfos__cli_texts, separated by commas */
    CLI_INTEGER,
    CLI_BYTES,  /* int64_t, with a unit: 64MiB */
    CLI_CHOICE, /* int, the index in `choices` */
} tfos__cli_kind;

enum { CLI_MAX_TEXTS = 256 };

typedef struct tfos__cli_texts {
    const char *text[CLI_MAX_TEXTS];
    size_t count;
} tfos__cli_texts;

typedef struct tfos__cli_option {
    const char *name;  /* without the dashes */
    char letter;       /* short form, or 0 */
    const char *value; /* what the help calls the value; NULL for flags */
    tfos__cli_kind kind;
    size_t offset; /* of the variable in the command's options */
    const char *help;
    const char *const *choices; /* NULL-terminated */
    int64_t least;
    int64_t most;
} tfos__cli_option;

typedef struct tfos__cli_command tfos__cli_command;

typedef struct tfos__cli_inputs {
    const char **text;
    size_t count;
    size_t before_dashes; /* of these, in front of "--" */
} tfos__cli_inputs;

struct tfos__cli_command {
    const char *name; /* "records head" */
    const char *summary;
    const char *synopsis;
    const char *details; /* after the options, with examples */
    const tfos__cli_option *options;
    size_t option_count;
    size_t least_inputs;
    const char *missing_input;      /* what to say when there are fewer */
    void (*print_exit_codes)(void); /* NULL: those that all commands share */
    int (*run)(int argc, char **argv);
};

/* Fills `options`, which holds the defaults, and the positional arguments. Returns true to go on; otherwise *code is
 * the exit code: after `--help`, or after a wrong command line that has been reported. The caller frees inputs->text.
 */
bool tfos__cli_parse(const tfos__cli_command *command, int argc, char **argv, void *options, tfos__cli_inputs *inputs,
                     int *code);

/* The same for a command without options and inputs, which others start. */
bool tfos__cli_parse_nothing(const tfos__cli_command *command, int argc, char **argv, int *code);

/* The name nearest to `word`, or NULL if none is near. */
const char *tfos__cli_nearest(const char *word, const char *const *names, size_t count);

void tfos__cli_print_help(const tfos__cli_command *command);

/* ---- what commands on records have in common (input.c) ---- */

typedef struct tfos__cli_common {
    int64_t threads; /* 0: as many as there are cores */
    int codec;
    int on_corrupt;
    int record;
    bool quiet;
    bool json;
    const char *schema;
    tfos__cli_texts columns;
} tfos__cli_common;

/* Lines of the table of options, for a struct with a member `common`. */
#define CLI_OPTION_THREADS(type)                                                                                       \
    {                                                                                                                  \
        .name = "threads", .value = "N", .kind = CLI_INTEGER, .offset = offsetof(type, common.threads), .least = 0,    \
        .most = 256, .help = "threads that parse (default 0: TFOS_RECORDS_THREADS, or one for each core)"              \
    }
#define CLI_OPTION_CODEC(type, text)                                                                                   \
    {                                                                                                                  \
        .name = "codec", .value = "CODEC", .kind = CLI_CHOICE, .offset = offsetof(type, common.codec),                 \
        .choices = tfos__codec_names, .help = text                                                                     \
    }
#define CLI_OPTION_ON_CORRUPT(type)                                                                                    \
    {                                                                                                                  \
        .name = "on-corrupt", .value = "WHAT", .kind = CLI_CHOICE, .offset = offsetof(type, common.on_corrupt),        \
        .choices = tfos__on_corrupt_names,                                                                             \
        .help = "error (default): stop at damage; skip: go on behind it, and report at the end what was skipped"       \
    }
#define CLI_OPTION_RECORD(type)                                                                                        \
    {                                                                                                                  \
        .name = "record", .value = "KIND", .kind = CLI_CHOICE, .offset = offsetof(type, common.record),                \
        .choices = tfos__record_kind_names,                                                                            \
        .help = "what a record is: auto (default), example, sequence_example or bytes"                                 \
    }
#define CLI_OPTION_SCHEMA(type)                                                                                        \
    {                                                                                                                  \
        .name = "schema", .value = "FILE", .kind = CLI_TEXT, .offset = offsetof(type, common.schema),                  \
        .help = "JSON schema, as `tfos records schema --json` prints it (default: inferred)"                           \
    }
#define CLI_OPTION_COLUMNS(type)                                                                                       \
    {                                                                                                                  \
        .name = "columns", .value = "A,B,…", .kind = CLI_NAMES, .offset = offsetof(type, common.columns),              \
        .help = "only these columns, in this order"                                                                    \
    }
#define CLI_OPTION_QUIET(type)                                                                                         \
    {                                                                                                                  \
        .name = "quiet", .letter = 'q', .kind = CLI_FLAG, .offset = offsetof(type, common.quiet),                      \
        .help = "no progress bar and no summary on stderr"                                                             \
    }
#define CLI_OPTION_JSON(type, text)                                                                                    \
    {                                                                                                                  \
        .name = "json", .kind = CLI_FLAG, .offset = offsetof(type, common.json), .help = text                          \
    }

/* Fills in threads, codec, record and on_corrupt. */
void tfos__cli_read_options(const tfos__cli_common *common, tfos_read_options *out);

/* The schema in the file --schema, or inferred from the first `infer_records` records (0: all); then --columns are
 * taken from it. `reads_on`: the files are read again after this, which a pipe cannot be. *out has all columns, *chosen
 * those that are wanted; both are the caller's. */
int tfos__cli_find_schema(const tfos__cli_common *common, const tfos_paths *paths, int64_t infer_records, bool reads_on,
                          tfos_schema **out, tfos_schema **chosen);

/* The part of `schema` that --columns asks for. */
int tfos__cli_choose_columns(const tfos__cli_common *common, const tfos_schema *schema, tfos_schema **chosen);

/* A schema from a file of JSON; the second says what is wrong with it, and returns an exit code. */
tfos_status tfos__cli_read_schema(const char *path, tfos_schema **out, tfos_error *error);
int tfos__cli_load_schema(const char *path, tfos_schema **out);

/* What a command does whose arguments are files, folders and globs: reads the command line into `options`, which holds
 * the defaults, finds the files and hands them to `work`. Returns the exit code. */
typedef int (*tfos__cli_paths_function)(const void *options, const tfos_paths *paths);
int tfos__cli_run_on_paths(const tfos__cli_command *command, int argc, char **argv, void *options,
                           tfos__cli_paths_function work);

/* Says what a reader has skipped, if anything. */
void tfos__cli_report_skipped(const tfos_progress *progress);

/* ---- progress bar (progress.c) ---- */

typedef void (*tfos__cli_progress_function)(void *context, tfos_progress *out);

/* Draws a bar on stderr ten times a second, by asking `function` from a thread of its own, until it is stopped. Does
 * nothing when `quiet` or when stderr is no terminal. One at a time. */
void tfos__cli_progress_start(const char *verb, tfos__cli_progress_function function, void *context, bool quiet);
void tfos__cli_progress_stop(void);

/* The same for work that is counted in something else, "tasks": their numbers are given in the place of bytes. */
void tfos__cli_progress_start_items(const char *verb, const char *items, tfos__cli_progress_function function,
                                    void *context, bool quiet);

/* A tfos__cli_progress_function for a tfos_reader. */
void tfos__cli_progress_of_reader(void *context, tfos_progress *out);

/* Takes the bar off the screen. Safe in a signal handler. */
void tfos__cli_progress_erase(void);

/* The same, and keeps it off until it is released: for messages while work goes on. */
void tfos__cli_progress_hold(void);
void tfos__cli_progress_release(void);

/* Columns of the terminal on this descriptor, or `otherwise`. */
int tfos__cli_terminal_width(int descriptor, int otherwise);

/* ---- text (print.c) ---- */

/* "1.5 GiB" */
typedef struct tfos__cli_text {
    char text[32];
} tfos__cli_text;
tfos__cli_text tfos__cli_show_bytes(double bytes);

/* "1 234 567" */
tfos__cli_text tfos__cli_show_count(int64_t count);

/* Appends text from outside: what is not UTF-8, and what a terminal would obey, is escaped as \xNN. */
void tfos__cli_show_text(const char *text, size_t bytes, tfos__buffer *out);

/* A table whose columns are as wide as their widest cell. */
typedef struct tfos__cli_table tfos__cli_table;
tfos__cli_table *tfos__cli_table_new(size_t columns, const char *right_aligned); /* one letter a column: 'r' or 'l' */
void tfos__cli_table_add(tfos__cli_table *table, const char *cell);              /* shown as text; row by row */
void tfos__cli_table_print(const tfos__cli_table *table);
void tfos__cli_table_free(tfos__cli_table *table);

/* A value of a row for people: long strings and lists are cut to about `width` columns, and say how long they are. 0:
 * nothing is cut. */
void tfos__cli_show_value(const tfos_vector *vector, int64_t row, size_t width, tfos__buffer *out);

/* Columns that a text takes on a terminal, counting each character as one. */
size_t tfos__cli_text_width(const char *text, size_t bytes);

/* ---- status pages (fetch.c) ---- */

/* Appends the file `file` of the status page at `url`. INVALID: that is no address. IO: nobody answers. PERMISSION: the
 * token is wrong. CORRUPT: somebody else answers. */
tfos_status tfos__cli_fetch(const char *url, const char *file, tfos__buffer *body, tfos_error *error);

/* ---- commands ---- */

extern const tfos__cli_command tfos__cli_records_head;
extern const tfos__cli_command tfos__cli_records_schema;
extern const tfos__cli_command tfos__cli_records_count;
extern const tfos__cli_command tfos__cli_records_verify;
extern const tfos__cli_command tfos__cli_records_stats;
extern const tfos__cli_command tfos__cli_records_convert;
extern const tfos__cli_command tfos__cli_records_index;
extern const tfos__cli_command tfos__cli_ps;
extern const tfos__cli_command tfos__cli_tensorflow;
extern const tfos__cli_command tfos__cli_config;
extern const tfos__cli_command tfos__cli_coordinator;
extern const tfos__cli_command tfos__cli_node;
extern const tfos__cli_command tfos__cli_model;
extern const tfos__cli_command tfos__cli_trainer;
extern const tfos__cli_command tfos__cli_train_about;
extern const tfos__cli_command tfos__cli_infer;
extern const tfos__cli_command tfos__cli_status;

#endif

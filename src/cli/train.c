/* tfos train: trains an exported model on TFRecord files. Its options are those of the trainer, by the trainer's own
 * table: a word of the command line becomes a member of an object of JSON, and the trainer says what is wrong with it.
 */
#include "cli/train.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"
#include "fs/local.h"
#include "tensorflow/trainer_options.h"

enum {
    TABLE_MOST = 64,
    HELP_BYTES = 256,
    NAME_BYTES = 48,
    NODES_MOST = 65536, /* of a cluster */
    HERE_MOST = 64,     /* on this machine */
    RESTARTS_MOST = 1000,
};

typedef struct train_options {
    tfos__cli_texts data;
    tfos__cli_texts validation;
    tfos__cli_texts columns;
    tfos__cli_texts libraries;
    const char *rate;
    const char *tensorflow;
    int64_t nodes;
    int64_t restarts;
    bool quiet;
    bool json;
    tfos__cli_spark spark;
    const char *text[TABLE_MOST]; /* of options of the trainer, by their place in its table */
    bool on[TABLE_MOST];
} train_options;

/* ---- the table of options ---- */

static const tfos__cli_option own_options[] = {
    {.name = "data",
     .value = "PATH",
     .kind = CLI_TEXTS,
     .offset = offsetof(train_options, data),
     .help = "TFRecord files, folders and globs to train on; may be given several times, and so may what stands alone"},
    {.name = "validation",
     .value = "PATH",
     .kind = CLI_TEXTS,
     .offset = offsetof(train_options, validation),
     .help = "files to validate with after each epoch; may be given several times"},
    {.name = "columns",
     .value = "COLUMN=NAME,…",
     .kind = CLI_NAMES,
     .offset = offsetof(train_options, columns),
     .help = "columns that have other names than the model's inputs and labels"},
    {.name = "learning-rate",
     .value = "RATE",
     .kind = CLI_TEXT,
     .offset = offsetof(train_options, rate),
     .help =
         "a rate, or several with the steps from which on they hold: 0:0.1,1000:0.01 (default: the optimizer's own)"},
    {.name = "nodes",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(train_options, nodes),
     .least = 1,
     .most = NODES_MOST,
     .help = "workers that train together (default 1); 64 at most without --master"},
    {.name = "restarts",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(train_options, restarts),
     .least = 0,
     .most = RESTARTS_MOST,
     .help = "how often training that has failed is started again, from its last checkpoint (default 0)"},
    {.name = "op-library",
     .value = "PATH",
     .kind = CLI_TEXTS,
     .offset = offsetof(train_options, libraries),
     .help = "a library of ops to load, as tf.load_op_library does; may be given several times. With --master its path "
             "on the executors, as that of TensorFlow and Python"},
    {.name = "tensorflow",
     .value = "PATH",
     .kind = CLI_TEXT,
     .offset = offsetof(train_options, tensorflow),
     .help = "TensorFlow's library, libtensorflow_cc.so.2 or libtensorflow.so.2, or its folder (default: "
             "TFOS_TENSORFLOW_LIB)"},
    CLI_OPTION_MASTER(train_options),
    CLI_OPTION_CONF(train_options),
    CLI_OPTION_VERBOSE(train_options),
    {.name = "quiet",
     .letter = 'q',
     .kind = CLI_FLAG,
     .offset = offsetof(train_options, quiet),
     .help = "nothing on stderr but errors"},
    {.name = "json",
     .kind = CLI_FLAG,
     .offset = offsetof(train_options, json),
     .help = "the outcome as JSON, on stdout"},
};

enum { OWN_COUNT = sizeof own_options / sizeof own_options[0] };

static tfos__cli_option all_options[OWN_COUNT + TABLE_MOST];
static char names[TABLE_MOST][NAME_BYTES];
static char helps[TABLE_MOST][HELP_BYTES];

/* "batch_size" is --batch-size, and what is on unless it is switched off is --no-resume. */
static void name_option(const tfos__trainer_option *option, char *name)
{
    snprintf(name, NAME_BYTES, "%s%s", option->kind == TFOS__OPTION_SWITCH ? "no-" : "", option->key);
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
}

static tfos__cli_option make_option(const tfos__trainer_option *from, size_t index)
{
    bool is_switch = from->kind == TFOS__OPTION_SWITCH;
    bool has_default = !is_switch && strcmp(from->fallback, "NULL") != 0;
    size_t bytes = strlen(from->fallback);
    bool quoted = from->fallback[0] == '"';
    name_option(from, names[index]);
    snprintf(helps[index], HELP_BYTES, "%s%s", is_switch ? "do not: " : "", from->meaning);
    if (has_default) {
        size_t used = strlen(helps[index]);
        snprintf(helps[index] + used, HELP_BYTES - used, " (default %.*s)", (int)(quoted ? bytes - 2 : bytes),
                 from->fallback + (quoted ? 1 : 0));
    }
    return (tfos__cli_option){.name = names[index],
                              .value = is_switch                           ? NULL
                                       : from->kind == TFOS__OPTION_TEXT   ? "TEXT"
                                       : from->kind == TFOS__OPTION_CHOICE ? "WORD"
                                                                           : "N",
                              .kind = is_switch ? CLI_UNFLAG : CLI_TEXT,
                              .offset = is_switch ? offsetof(train_options, on) + index * sizeof(bool)
                                                  : offsetof(train_options, text) + index * sizeof(const char *),
                              .help = helps[index]};
}

/* The trainer's options, but for the queue, which is for what Spark feeds; then our own. */
static size_t make_table(void)
{
    size_t count = 0;
    const tfos__trainer_option *each;
    for (size_t i = 0; i < TABLE_MOST && (each = tfos__trainer_option_at(i)) != NULL; i++) {
        if (strcmp(each->key, "queue") != 0) {
            all_options[count++] = make_option(each, i);
        }
        if (i == 0) {
            memcpy(&all_options[count], own_options, sizeof own_options);
            count += OWN_COUNT;
        }
    }
    return count;
}

/* ---- JSON ---- */

/* A number if it is one, otherwise a text, about which the trainer will have its opinion. */
static json_object *value_of(const tfos__trainer_option *option, const char *text)
{
    char *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    bool number = option->kind == TFOS__OPTION_NUMBER || option->kind == TFOS__OPTION_REAL;
    if (number && end != text && *end == '\0' && errno == 0) {
        return json_object_new_int64(whole);
    }
    double real = strtod(text, &end);
    if (number && end != text && *end == '\0') {
        return json_object_new_double(real);
    }
    return json_object_new_string(text);
}

static bool is_path(const char *key)
{
    return strcmp(key, "model") == 0 || strstr(key, "_dir") != NULL;
}

/* Nodes work in folders of their own. */
static json_object *absolute(const char *path)
{
    char folder[PATH_MAX];
    tfos__buffer text = {0};
    if (path[0] == '/' || tfos__path_scheme(path) > 0 || getcwd(folder, sizeof folder) == NULL ||
        tfos__buffer_printf(&text, NULL, "%s/%s", folder, path) != TFOS_OK) {
        return json_object_new_string(path);
    }
    json_object *made = json_object_new_string_len((const char *)text.data, (int)text.size);
    tfos__buffer_reset(&text);
    return made;
}

static void add_paths(json_object *to, const char *key, const tfos__cli_texts *texts, const char *const *more,
                      size_t more_count)
{
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < texts->count; i++) {
        json_object_array_add(list, absolute(texts->text[i]));
    }
    for (size_t i = 0; i < more_count; i++) {
        json_object_array_add(list, absolute(more[i]));
    }
    if (json_object_array_length(list) > 0) {
        json_object_object_add(to, key, list);
    } else {
        json_object_put(list);
    }
}

static bool add_columns(json_object *to, const tfos__cli_texts *pairs)
{
    json_object *columns = json_object_new_object();
    for (size_t i = 0; i < pairs->count; i++) {
        const char *equals = strchr(pairs->text[i], '=');
        char *column = equals != NULL ? strndup(pairs->text[i], (size_t)(equals - pairs->text[i])) : NULL;
        if (column == NULL) {
            tfos__cli_fail_usage("--columns: expected COLUMN=NAME, found '%s'", pairs->text[i]);
            json_object_put(columns);
            return false;
        }
        json_object_object_add(columns, column, json_object_new_string(equals + 1));
        free(column);
    }
    if (pairs->count > 0) {
        json_object_object_add(to, "columns", columns);
    } else {
        json_object_put(columns);
    }
    return true;
}

/* "0.1", or "0:0.1,1000:0.01". */
static bool add_rates(json_object *to, const char *text)
{
    char *end;
    double rate = text != NULL ? strtod(text, &end) : 0;
    if (text == NULL) {
        return true;
    }
    if (end != text && *end == '\0') {
        json_object_object_add(to, "learning_rate", json_object_new_double(rate));
        return true;
    }
    json_object *list = json_object_new_array();
    for (const char *at = text;; at = end + 1) {
        json_object *pair = json_object_new_array();
        long long step = strtoll(at, &end, 10);
        bool good = end != at && *end == ':';
        const char *second = good ? end + 1 : end;
        rate = strtod(second, &end);
        json_object_array_add(pair, json_object_new_int64(step));
        json_object_array_add(pair, json_object_new_double(rate));
        json_object_array_add(list, pair);
        if (!good || end == second || (*end != ',' && *end != '\0')) {
            json_object_put(list);
            tfos__cli_fail_usage("--learning-rate: expected a rate, or STEP:RATE,STEP:RATE, found '%s'", text);
            return false;
        }
        if (*end == '\0') {
            break;
        }
    }
    json_object_object_add(to, "learning_rate", list);
    return true;
}

static bool add_all(json_object *to, const train_options *given, const char *const *data, size_t data_count)
{
    const tfos__trainer_option *each;
    for (size_t i = 0; (each = tfos__trainer_option_at(i)) != NULL; i++) {
        if (each->kind == TFOS__OPTION_SWITCH && !given->on[i]) {
            json_object_object_add(to, each->key, json_object_new_boolean(false));
        } else if (given->text[i] != NULL) {
            json_object_object_add(to, each->key,
                                   is_path(each->key) ? absolute(given->text[i]) : value_of(each, given->text[i]));
        }
    }
    add_paths(to, "data", &given->data, data, data_count);
    add_paths(to, "validation", &given->validation, NULL, 0);
    add_paths(to, "op_libraries", &given->libraries, NULL, 0);
    return add_columns(to, &given->columns) && add_rates(to, given->rate);
}

/* Options travel as JSON, which has no bytes but those of UTF-8. */
static bool check_text(const char *key, json_object *value)
{
    const char *text = json_object_get_string(value);
    size_t bytes = strlen(text);
    if (tfos__utf8_valid_prefix(text, bytes) == bytes) {
        return true;
    }
    tfos__cli_fail_usage("%s: expected UTF-8, found '%s': give it another name, or a link to it", key,
                         tfos__printable_text(text).text);
    return false;
}

static bool check_texts(json_object *options)
{
    json_object_object_foreach(options, key, value)
    {
        size_t count = json_object_is_type(value, json_type_array) ? json_object_array_length(value) : 0;
        for (size_t i = 0; i < count; i++) {
            json_object *each = json_object_array_get_idx(value, i);
            if (json_object_is_type(each, json_type_string) && !check_text(key, each)) {
                return false;
            }
        }
        if (json_object_is_type(value, json_type_string) && !check_text(key, value)) {
            return false;
        }
    }
    return true;
}

/* ---- the command ---- */

enum { SETTINGS_MOST = 16, PLAN_DEPTH = 8 };

/* What the plan says of the cluster, as key=value; the texts live as long as the command. */
static void take_settings(const char *text, const char **out)
{
    json_object *plan = NULL;
    tfos__json_fault fault;
    size_t count = 0;
    if (tfos__json_object_parse(text, strlen(text), PLAN_DEPTH, &plan, &fault, NULL) != TFOS_OK) {
        return;
    }
    json_object_object_foreach(tfos__json_member(plan, "settings"), key, value)
    {
        char *pair = NULL;
        if (count < SETTINGS_MOST - 1 && asprintf(&pair, "%s=%s", key, json_object_get_string(value)) >= 0) {
            out[count++] = pair;
        }
    }
    json_object_put(plan);
}

/* What makes no sense is said before anything is started. */
static int check(json_object *options, const char **settings)
{
    tfos_error error;
    char *plan = NULL;
    const char *text = json_object_to_json_string(options);
    tfos_status status = tfos_trainer_plan(NULL, text, strlen(text), &plan, &error);
    if (status == TFOS_OK) {
        take_settings(plan, settings);
    }
    tfos_string_free(plan);
    return status == TFOS_OK ? CLI_OK : tfos__cli_fail(&error);
}

static int train_here(tfos__cli_train *train)
{
    static const char *settings[SETTINGS_MOST];
    if (train->nodes > HERE_MOST) {
        return tfos__cli_fail_usage("--nodes: expected at most %d on one machine, found %lld", HERE_MOST,
                                    (long long)train->nodes);
    }
    if (train->tensorflow != NULL) {
        setenv("TFOS_TENSORFLOW_LIB", train->tensorflow, 1);
    }
    train->settings = settings;
    int code = check(train->options, settings);
    return code == CLI_OK ? tfos__cli_train_here(train) : code;
}

static tfos__cli_command command_with_table(void)
{
    tfos__cli_command command = tfos__cli_train_about;
    command.options = all_options;
    command.option_count = make_table();
    return command;
}

/* What stands alone is data; on Spark, what stands behind -- is for spark-submit. */
static int train(const train_options *given, const tfos__cli_inputs *inputs)
{
    size_t data = given->spark.master != NULL ? inputs->before_dashes : inputs->count;
    tfos__cli_train train = {.options = json_object_new_object(),
                             .nodes = given->nodes,
                             .restarts = given->restarts,
                             .quiet = given->quiet,
                             .json = given->json,
                             .spark = &given->spark,
                             .words = inputs->text + data,
                             .word_count = inputs->count - data,
                             .tensorflow = given->tensorflow};
    int code = tfos__cli_spark_check(&given->spark);
    if (code == CLI_OK && !(add_all(train.options, given, inputs->text, data) && check_texts(train.options))) {
        code = CLI_USAGE;
    }
    if (code == CLI_OK && !json_object_object_get_ex(train.options, "data", NULL)) {
        code =
            tfos__cli_fail_usage("--data is missing: the TFRecord files to train on; `tfos train --help` tells more");
    }
    if (code == CLI_OK) {
        code = given->spark.master != NULL ? tfos__cli_train_on_spark(&train) : train_here(&train);
    }
    json_object_put(train.options);
    return code;
}

static int run(int argc, char **argv)
{
    static train_options given;
    tfos__cli_inputs inputs;
    int code;
    const tfos__cli_command command = command_with_table();
    given.nodes = 1;
    memset(given.on, true, sizeof given.on);
    if (!tfos__cli_parse(&command, argc, argv, &given, &inputs, &code)) {
        return code;
    }
    code = train(&given, &inputs);
    free(inputs.text);
    return code;
}

/* What has failed is said; a code of its own has only what is looked at before training begins. */
static void print_exit_codes(void)
{
    static const tfos__cli_code codes[] = {
        {CLI_OK, "all went well"},
        {CLI_BAD_DATA, "the options do not go with the model"},
        {CLI_USAGE, "the command line is wrong, or asks for what is not supported"},
        {CLI_SYSTEM, "training has failed, also by damaged data; or a file or the system has"},
        {CLI_INTERRUPTED, "stopped by Ctrl-C or another signal, behind a checkpoint if there is --model-dir"},
    };
    tfos__cli_print_codes(codes, sizeof codes / sizeof codes[0]);
}

const tfos__cli_command tfos__cli_train_about = {
    .name = "train",
    .summary = "train an exported model on TFRecord files, without Python",
    .synopsis = "tfos train --model DIR --data PATH [OPTIONS] [-- OPTIONS OF SPARK-SUBMIT]",
    .details =
        "The model is one that tensorflowonspark.native.export has written, in Python. Workers train together, exact "
        "to\n"
        "the row; the first of them writes checkpoints of TensorFlow's own format, event files for TensorBoard and, "
        "at\n"
        "the end, a SavedModel for prediction. Training that was ended goes on from the newest checkpoint. Ctrl-C "
        "makes\n"
        "it write one. With --master the workers are on the executors of Spark, which see the same files; what they\n"
        "cannot read by themselves, such as hdfs://…, Spark reads and feeds to them.\n\n"
        "Examples:\n"
        "  tfos train --model exported --data train/ --epochs 5 --batch-size 64 --export-dir trained\n"
        "  tfos train --model exported --data train/ --validation test/ --patience 3 --model-dir run1 --nodes 2\n"
        "  tfos train --model hdfs:///exported --data hdfs:///train --model-dir /share/run --nodes 8 --master yarn\n",
    .print_exit_codes = print_exit_codes,
    .run = run,
};

/* Training on Spark: the same options, as an order for the application (org.tfos.spark.TrainCommand). Files that
 * trainers cannot open themselves are read by Spark as a table, which is fed to them; what is about reading is then
 * said to Spark, and taken out of the options of the trainers. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "cli/train.h"
#include "fs/local.h"
#include "tensorflow/trainer_options.h"

enum { GRACE_MS = 90000 }; /* trainers have a minute for their last checkpoint */

/* ---- what trainers cannot read ---- */

/* The first path of an option that is not a local one; NULL: there is none. */
static const char *find_foreign(json_object *options, const char *key)
{
    json_object *paths = tfos__json_member_of(options, key, json_type_array);
    for (size_t i = 0; paths != NULL && i < json_object_array_length(paths); i++) {
        const char *local;
        const char *path = json_object_get_string(json_object_array_get_idx(paths, i));
        if (tfos__path_local(path, &local, NULL) != TFOS_OK) {
            return path;
        }
    }
    return NULL;
}

static int refuse_order(json_object *options, const char *path)
{
    static const char *const of_order[] = {"shuffle", "seed"};
    for (size_t i = 0; i < sizeof of_order / sizeof of_order[0]; i++) {
        if (json_object_object_get_ex(options, of_order[i], NULL)) {
            return tfos__cli_fail_usage("--%s is for files that trainers read themselves, and '%s' is read by Spark, "
                                        "which feeds rows in an order of its own: leave it out, or copy the files to "
                                        "a folder that all executors see",
                                        of_order[i], path);
        }
    }
    return CLI_OK;
}

/* ---- what is said to Spark instead ---- */

/* Without a scheme, Spark would take a path for one of its own file system. */
static tfos_status add_paths(json_object *options, const char *key, tfos__cli_words *order, tfos_error *error)
{
    json_object *paths = tfos__json_member_of(options, key, json_type_array);
    for (size_t i = 0; paths != NULL && i < json_object_array_length(paths); i++) {
        const char *path = json_object_get_string(json_object_array_get_idx(paths, i));
        char *whole = NULL;
        if (asprintf(&whole, "%s%s", path[0] == '/' ? "file://" : "", path) < 0) {
            return tfos__fail_memory(error, strlen(path));
        }
        tfos_status status = tfos__cli_words_pair(order, key, whole, error);
        free(whole);
        TFOS_TRY(status);
    }
    return TFOS_OK;
}

static tfos_status add_number(tfos__cli_words *order, const char *key, int64_t number, tfos_error *error)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return tfos__cli_words_pair(order, key, text, error);
}

static void move(json_object *from, const char *key, json_object *to)
{
    json_object *value = tfos__json_member(from, key);
    if (value != NULL) {
        json_object_object_add(to, key, json_object_get(value));
    }
    json_object_object_del(from, key);
}

/* How often rows are read, and what becomes of damaged ones. Nobody knows better than the trainer what makes sense
 * there, so it is asked, as if it were to read some files. */
static tfos_status add_reading(json_object *options, tfos__cli_words *order, tfos_error *error)
{
    tfos__trainer_options parsed;
    json_object *reading = json_object_new_object();
    json_object_object_add(reading, "model", json_object_new_string("/"));
    json_object_object_add(reading, "data", json_object_new_string("/"));
    move(options, "epochs", reading);
    move(options, "on_corrupt", reading);
    const char *text = json_object_to_json_string(reading);
    tfos_status status = tfos__trainer_options_parse(text, strlen(text), &parsed, error);
    if (status == TFOS_OK) {
        const char *read = parsed.on_corrupt == TFOS_ON_CORRUPT_SKIP ? "onCorrupt=skip" : NULL;
        status = add_number(order, "epochs", parsed.epochs, error);
        status = status == TFOS_OK ? tfos__cli_words_pair(order, "read", read, error) : status;
        tfos__trainer_options_reset(&parsed);
    }
    json_object_put(reading);
    return status;
}

static tfos_status take_table(json_object *options, tfos__cli_words *order, tfos_error *error)
{
    TFOS_TRY(add_paths(options, "data", order, error));
    TFOS_TRY(add_paths(options, "validation", order, error));
    TFOS_TRY(add_reading(options, order, error));
    json_object_object_del(options, "data");
    if (json_object_object_get_ex(options, "validation", NULL)) {
        json_object_object_add(options, "validation", json_object_new_boolean(true));
    }
    return TFOS_OK;
}

/* ---- the order ---- */

/* What makes no sense is said before Spark is started. A model elsewhere is looked at by the application. */
static tfos_status check(json_object *options, tfos_error *error)
{
    const char *local;
    char *plan = NULL;
    tfos__trainer_options parsed;
    const char *text = json_object_to_json_string(options);
    TFOS_TRY(tfos__trainer_options_parse(text, strlen(text), &parsed, error));
    bool here = tfos__path_local(parsed.model, &local, NULL) == TFOS_OK;
    tfos__trainer_options_reset(&parsed);
    tfos_status status = here ? tfos_trainer_plan(NULL, text, strlen(text), &plan, error) : TFOS_OK;
    tfos_string_free(plan);
    return status;
}

static tfos_status make_order(const tfos__cli_train *train, bool table, tfos__cli_words *order, tfos_error *error)
{
    if (table) {
        TFOS_TRY(take_table(train->options, order, error));
    }
    TFOS_TRY(check(train->options, error));
    const char *text = json_object_to_json_string_ext(train->options, JSON_C_TO_STRING_PLAIN);
    TFOS_TRY(tfos__cli_words_pair(order, "trainer", text, error));
    TFOS_TRY(add_number(order, "nodes", train->nodes, error));
    return add_number(order, "restarts", train->restarts, error);
}

/* ---- all of it ---- */

static bool has_key(const tfos__cli_words *order, const char *key)
{
    for (size_t i = 0; i < order->count; i += 2) {
        if (strcmp(order->at[i], key) == 0) {
            return true;
        }
    }
    return false;
}

/* What a table has skipped is counted by Spark, and the trainers know nothing of it: they would say 0. */
static void report(const tfos__cli_train *train, const tfos__cli_words *order, json_object *answer)
{
    json_object *value = tfos__json_member_of(answer, "value", json_type_object);
    bool told = value != NULL && json_object_object_length(value) > 0;
    if (told && has_key(order, "read")) {
        json_object_object_add(value, "damaged_records", NULL);
    }
    tfos__cli_train_report(train, told ? value : NULL, tfos__json_member(answer, "history"));
}

static int submit(const tfos__cli_train *train, const tfos__cli_spark *spark, bool table, const tfos__cli_words *order)
{
    json_object *answer = NULL;
    json_object *python = tfos__json_member_of(train->options, "python", json_type_string);
    const tfos__cli_application application = {.name = "tfos train",
                                               .main_class = "org.tfos.spark.TrainCommand",
                                               .spark = spark,
                                               .options = train->words,
                                               .option_count = train->word_count,
                                               .order = order,
                                               .python = python != NULL ? json_object_get_string(python) : NULL,
                                               .quiet = train->quiet,
                                               .no_tasks = !table,
                                               .grace_ms = GRACE_MS};
    int code = tfos__cli_submit(&application, &answer);
    if (code == CLI_OK) {
        report(train, order, answer);
    }
    json_object_put(answer);
    return code > 128 ? tfos__cli_train_stopped(train, false) : code; /* by a signal */
}

int tfos__cli_train_on_spark(const tfos__cli_train *train)
{
    tfos_error error;
    char *setting = NULL;
    tfos__cli_words order = {0};
    tfos__cli_spark spark = *train->spark;
    const char *path = find_foreign(train->options, "data");
    path = path != NULL ? path : find_foreign(train->options, "validation");
    int code = path != NULL ? refuse_order(train->options, path) : CLI_OK;
    code = code == CLI_OK ? tfos__cli_spark_tensorflow(&spark, train->tensorflow, &setting) : code;
    if (code == CLI_OK) {
        bool made = make_order(train, path != NULL, &order, &error) == TFOS_OK;
        code = made ? submit(train, &spark, path != NULL, &order) : tfos__cli_fail(&error);
    }
    tfos__cli_words_reset(&order);
    free(setting);
    return code;
}

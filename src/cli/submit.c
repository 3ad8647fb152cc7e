/* What is submitted: spark-submit and our jar are found, and the words of its command line put together. */
#include "cli/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/program.h"
#include "base/status.h"

/* ---- words ---- */

tfos_status tfos__cli_words_add(tfos__cli_words *words, const char *word, tfos_error *error)
{
    char *copy = strdup(word);
    if (copy == NULL) {
        return tfos__fail_memory(error, strlen(word));
    }
    tfos_status status = tfos__array_reserve(&words->at, words->count + 1, &words->capacity, sizeof *words->at, error);
    if (status != TFOS_OK) {
        free(copy);
        return status;
    }
    words->at[words->count++] = copy;
    words->at[words->count] = NULL;
    return TFOS_OK;
}

tfos_status tfos__cli_words_pair(tfos__cli_words *words, const char *key, const char *value, tfos_error *error)
{
    if (value == NULL) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__cli_words_add(words, key, error));
    return tfos__cli_words_add(words, value, error);
}

void tfos__cli_words_reset(tfos__cli_words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        free(words->at[i]);
    }
    free(words->at);
    *words = (tfos__cli_words){0};
}

/* ---- settings ---- */

int tfos__cli_spark_tensorflow(tfos__cli_spark *spark, const char *path, char **setting)
{
    *setting = NULL;
    if (path == NULL) {
        return CLI_OK;
    }
    if (spark->settings.count == CLI_MAX_TEXTS) {
        return tfos__cli_fail_usage("--conf: more than %d are given", CLI_MAX_TEXTS - 1);
    }
    if (asprintf(setting, "spark.tfos.tensorflow.lib=%s", path) < 0) {
        tfos_error error;
        *setting = NULL;
        tfos__fail_memory(&error, strlen(path));
        return tfos__cli_fail(&error);
    }
    spark->settings.text[spark->settings.count++] = *setting;
    return CLI_OK;
}

/* ---- what there is ---- */

/* The folder of this program. */
static bool own_folder(char out[PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t count = readlink("/proc/self/exe", path, sizeof path - 1);
    if (count <= 0) {
        return false;
    }
    path[count] = '\0';
    snprintf(out, PATH_MAX, "%s", dirname(path));
    return true;
}

/* In an environment of Python: beside its interpreter, or in the package pyspark, which lies beside ours. */
static bool find_in_python(const char *python, char *out, size_t bytes)
{
    char folder[PATH_MAX];
    const char *slash = python != NULL ? strrchr(python, '/') : NULL;
    if (slash != NULL) {
        snprintf(out, bytes, "%.*s/spark-submit", (int)(slash - python), python);
        if (tfos__program_is(out)) {
            return true;
        }
    }
    if (!own_folder(folder)) {
        return false;
    }
    int count = snprintf(out, bytes, "%s/../../pyspark/bin/spark-submit", folder);
    return count > 0 && (size_t)count < bytes && tfos__program_is(out);
}

tfos_status tfos__cli_submit_find(const char *python, char *out, size_t bytes, tfos_error *error)
{
    const char *home = getenv("SPARK_HOME");
    if (home != NULL && home[0] != '\0') {
        snprintf(out, bytes, "%s/bin/spark-submit", home);
        return tfos__program_is(out)
                   ? TFOS_OK
                   : tfos__fail_errno(error, errno, "%s: cannot be run (SPARK_HOME is set to %s)", out, home);
    }
    if (tfos__program_find("spark-submit", out, bytes) || find_in_python(python, out, bytes)) {
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_NOT_FOUND,
                      "--master needs Spark, and there is no spark-submit: SPARK_HOME is not set, none is on the PATH, "
                      "and there is no pyspark beside this command. Set SPARK_HOME, or install it (pip install "
                      "pyspark)");
}

tfos_status tfos__cli_submit_jar(char *out, size_t bytes, tfos_error *error)
{
    char folder[PATH_MAX] = "?";
    const char *named = getenv("TFOS_JAR");
    if (named != NULL && named[0] != '\0') {
        snprintf(out, bytes, "%s", named);
        return access(out, R_OK) == 0 ? TFOS_OK
                                      : tfos__fail_errno(error, errno, "%s: cannot be read (TFOS_JAR)", named);
    }
    int count = own_folder(folder) ? snprintf(out, bytes, "%s/../jars/tfos.jar", folder) : -1;
    if (count > 0 && (size_t)count < bytes && access(out, R_OK) == 0) {
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_NOT_FOUND,
                      "--master needs tfos.jar, which lies beside the command of the Python package "
                      "(tensorflowonspark/jars/tfos.jar), and is not in %s/../jars. Use the command of the package, or "
                      "set TFOS_JAR to the jar",
                      folder);
}

/* ---- what makes no sense ---- */

int tfos__cli_spark_check(const tfos__cli_spark *spark)
{
    if (spark->master == NULL && (spark->settings.count > 0 || spark->verbose)) {
        return tfos__cli_fail_usage("%s is for Spark, and there is no --master",
                                    spark->verbose ? "--verbose" : "--conf");
    }
    for (size_t i = 0; i < spark->settings.count; i++) {
        const char *equals = strchr(spark->settings.text[i], '=');
        if (equals == NULL || equals == spark->settings.text[i]) {
            return tfos__cli_fail_usage("--conf: expected KEY=VALUE, found '%s'", spark->settings.text[i]);
        }
    }
    return CLI_OK;
}

static const char cluster_mode[] = "spark.submit.deployMode=cluster";

static bool is_option(const char *word, const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(word, name, bytes) == 0 && (word[bytes] == '\0' || word[bytes] == '=');
}

/* --deploy-mode=cluster, or the setting that is behind it, in one word or in two. */
static bool is_cluster_mode(const char *word, const char *next)
{
    static const char *const options[][2] = {
        {"--deploy-mode", "cluster"}, {"--conf", cluster_mode}, {"-c", cluster_mode}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (is_option(word, options[i][0])) {
            const char *equals = strchr(word, '=');
            return strcmp(equals != NULL ? equals + 1 : next, options[i][1]) == 0;
        }
    }
    return false;
}

static int refuse_cluster_mode(void)
{
    return tfos__cli_fail_usage("--deploy-mode cluster: the driver of a command runs here, where its answer is waited "
                                "for; leave this out");
}

/* Options of spark-submit that would run something else, or where nobody waits for the answer. */
static int check_options(const tfos__cli_application *application)
{
    const tfos__cli_texts *settings = &application->spark->settings;
    for (size_t i = 0; i < settings->count; i++) {
        if (strcmp(settings->text[i], cluster_mode) == 0) {
            return refuse_cluster_mode();
        }
    }
    for (size_t i = 0; i < application->option_count; i++) {
        const char *word = application->options[i];
        const char *next = i + 1 < application->option_count ? application->options[i + 1] : "";
        if (is_option(word, "--class") || is_option(word, "--master")) {
            return tfos__cli_fail_usage("%s: behind -- stand other options of spark-submit; the class is ours, and the "
                                        "master in front",
                                        word);
        }
        if (is_cluster_mode(word, next)) {
            return refuse_cluster_mode();
        }
    }
    return CLI_OK;
}

/* ---- what the class is told ---- */

/* One word of a command line may have 128 KiB, and all of them, with the environment, 2 MiB at least. */
enum { ORDER_WORDS_BYTES = 1 << 16 };

static bool is_large(const tfos__cli_words *order)
{
    size_t bytes = 0;
    for (size_t i = 0; i < order->count; i++) {
        bytes += strlen(order->at[i]) + 1;
    }
    return bytes > ORDER_WORDS_BYTES;
}

static tfos_status write_order(const tfos__cli_words *order, int file, tfos_error *error)
{
    FILE *stream = fdopen(dup(file), "w");
    bool good = stream != NULL;
    for (size_t i = 0; i < order->count && good; i++) {
        good = fwrite(order->at[i], strlen(order->at[i]) + 1, 1, stream) == 1;
    }
    good = stream != NULL && fclose(stream) == 0 && good && lseek(file, 0, SEEK_SET) == 0;
    return good ? TFOS_OK : tfos__fail_errno(error, errno, "no memory for what spark-submit is told");
}

/* The stdin of spark-submit: a large order, or nothing. */
static tfos_status open_input(const tfos__cli_words *order, int *out, tfos_error *error)
{
    bool large = is_large(order);
    *out = large ? memfd_create("tfos order", MFD_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (*out < 0) {
        return tfos__fail_errno(error, errno, "no stdin for spark-submit");
    }
    tfos_status status = large ? write_order(order, *out, error) : TFOS_OK;
    if (status != TFOS_OK) {
        close(*out);
    }
    return status;
}

/* ---- the command line ---- */

static tfos_status put_words(const tfos__cli_application *application, const char *program, const char *jar,
                             tfos__cli_words *words, tfos_error *error)
{
    const tfos__cli_spark *spark = application->spark;
    TFOS_TRY(tfos__cli_words_add(words, program, error));
    TFOS_TRY(tfos__cli_words_pair(words, "--name", application->name, error));
    TFOS_TRY(tfos__cli_words_pair(words, "--class", application->main_class, error));
    TFOS_TRY(tfos__cli_words_pair(words, "--master", spark->master, error));
    /* Whatever the configuration of Spark says. */
    TFOS_TRY(tfos__cli_words_pair(words, "--deploy-mode", "client", error));
    for (size_t i = 0; i < spark->settings.count; i++) {
        TFOS_TRY(tfos__cli_words_pair(words, "--conf", spark->settings.text[i], error));
    }
    for (size_t i = 0; i < application->option_count; i++) {
        TFOS_TRY(tfos__cli_words_add(words, application->options[i], error));
    }
    TFOS_TRY(tfos__cli_words_add(words, jar, error));
    if (is_large(application->order)) {
        return tfos__cli_words_add(words, "-", error);
    }
    for (size_t i = 0; i < application->order->count; i++) {
        TFOS_TRY(tfos__cli_words_add(words, application->order->at[i], error));
    }
    return TFOS_OK;
}

int tfos__cli_submit(const tfos__cli_application *application, json_object **answer)
{
    char program[PATH_MAX];
    char jar[PATH_MAX];
    tfos_error error;
    tfos__cli_words words = {0};
    int code = check_options(application);
    if (code != CLI_OK) {
        return code;
    }
    tfos_status status = tfos__cli_submit_find(application->python, program, sizeof program, &error);
    status = status == TFOS_OK ? tfos__cli_submit_jar(jar, sizeof jar, &error) : status;
    status = status == TFOS_OK ? put_words(application, program, jar, &words, &error) : status;
    int in = -1;
    status = status == TFOS_OK ? open_input(application->order, &in, &error) : status;
    code = status == TFOS_OK ? tfos__cli_submit_run(words.at, in, application, answer) : tfos__cli_fail(&error);
    if (status == TFOS_OK) {
        close(in);
    }
    tfos__cli_words_reset(&words);
    return code;
}

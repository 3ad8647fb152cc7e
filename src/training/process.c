/* The process of a trainer: what it is told, what it tells, and when it is to stop. */
#include "training/process.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"
#include "fs/local.h"
#include "service/note.h"
#include "service/report.h"
#include "tensorflow/ops.h"
#include "tensorflow/trainer.h"

enum { PAYLOAD_BYTES = 256 << 20, CONTEXT_DEPTH = 32, PATIENCE_S = 1, PATIENCE_MOST_S = 30, PATIENCE_STEPS = 2 };

/* ---- signals ---- */

static atomic_bool told_to_stop;
static atomic_bool patience_is_over;
static atomic_uint patience_s = PATIENCE_S; /* as long as a tally takes to come, and the steps before it */

static void on_alarm(int number)
{
    (void)number;
    atomic_store(&patience_is_over, true);
    tfos__ops_interrupt();
}

/* A second one means that nobody wants to wait. */
static void on_stop(int number)
{
    if (atomic_exchange(&told_to_stop, true)) {
        on_alarm(number);
    } else {
        alarm(atomic_load(&patience_s));
    }
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* Ctrl-C in a terminal goes to all processes of an application in local mode; the driver decides what it means. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

static void take_pace(void *context, int64_t ms)
{
    (void)context;
    int64_t seconds = PATIENCE_S + (ms * PATIENCE_STEPS + 999) / 1000;
    atomic_store(&patience_s, (unsigned)tfos__min_i64(seconds, PATIENCE_MOST_S));
}

static bool stops(void *context)
{
    (void)context;
    return atomic_load(&told_to_stop);
}

static bool breaks(void *context)
{
    (void)context;
    return atomic_load(&patience_is_over);
}

/* ---- the node ---- */

/* The number of a file that the node has opened for its program; -1: there is none. */
static int file_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : -1;
}

static void write_all(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t put = write(file, bytes, count);
        if (put < 0 && errno != EINTR) {
            return; /* the node is gone, and with it whoever wanted to know */
        }
        bytes += put > 0 ? put : 0;
        count -= put > 0 ? (size_t)put : 0;
    }
}

/* Sends a line, and gives the object up. */
static void tell(const char *event, json_object *object)
{
    int file = file_of("TFOS_REPORT_FD");
    json_object_object_add(object, "event", json_object_new_string(event));
    const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
    if (file >= 0 && text != NULL) {
        tfos__buffer line = {0};
        if (tfos__buffer_printf(&line, NULL, "%s\n", text) == TFOS_OK) {
            write_all(file, (const char *)line.data, line.size);
        }
        tfos__buffer_reset(&line);
    }
    json_object_put(object);
}

static double known(int64_t number)
{
    return number > 0 ? (double)number : NAN;
}

static void report(void *context, const tfos__trainer_report *said)
{
    tfos__report out = {.epoch = (double)said->epoch,
                        .epochs = known(said->epochs),
                        .step = (double)said->step,
                        .steps = known(said->steps),
                        .rows = (double)said->rows,
                        .steps_per_s = NAN,
                        .rows_per_s = NAN,
                        .epoch_end = said->epoch_end};
    (void)context;
    for (size_t i = 0; i < said->values->count && out.count < TFOS__REPORT_VALUES; i++, out.count++) {
        _Static_assert((int)TFOS__STEP_NAME_BYTES <= (int)TFOS__REPORT_NAME_BYTES, "a name fits");
        memcpy(out.values[out.count].name, said->values->at[i].name, TFOS__STEP_NAME_BYTES);
        out.values[out.count].value = said->values->at[i].value;
    }
    tell("progress", tfos__report_json(&out));
}

static void say(void *context, const char *text)
{
    (void)context;
    tfos__note("%s", text);
}

/* ---- the result ---- */

static json_object *describe(const tfos__trainer_options *options, const tfos__trainer_outcome *outcome)
{
    json_object *object = json_object_new_object();
    json_object *values = json_object_new_object();
    for (size_t i = 0; i < outcome->values.count; i++) {
        json_object_object_add(values, outcome->values.at[i].name, tfos__report_number(outcome->values.at[i].value));
    }
    json_object_object_add(object, "end", json_object_new_string(tfos__trainer_end_name(outcome->end)));
    json_object_object_add(object, "epochs", json_object_new_int64(outcome->epochs));
    json_object_object_add(object, "steps", json_object_new_int64(outcome->steps));
    json_object_object_add(object, "rows", json_object_new_int64(outcome->rows));
    json_object_object_add(object, "seconds", json_object_new_double(outcome->seconds));
    json_object_object_add(object, "values", values);
    json_object_object_add(object, "checkpoint",
                           outcome->checkpoint != NULL ? json_object_new_string(outcome->checkpoint) : NULL);
    json_object_object_add(object, "export_dir",
                           outcome->exported ? json_object_new_string(options->export_dir) : NULL);
    json_object_object_add(object, "skipped_steps", json_object_new_int64(outcome->skipped_steps));
    json_object_object_add(object, "skipped_rows", json_object_new_int64(outcome->skipped_rows));
    json_object_object_add(object, "dropped_rows", json_object_new_int64(outcome->dropped_rows));
    json_object_object_add(object, "damaged_records", json_object_new_int64(outcome->damaged_records));
    return object;
}

static void hand_over(const tfos__trainer_options *options, const tfos__trainer_outcome *outcome)
{
    int file = file_of("TFOS_RESULT_FD");
    json_object *object = describe(options, outcome);
    json_object *returned = json_object_new_object();
    size_t count = 0;
    const char *text = json_object_to_json_string_length(object, JSON_C_TO_STRING_PLAIN, &count);
    struct stat info;
    if (file >= 0 && text != NULL && fstat(file, &info) == 0 && (off_t)count <= info.st_size &&
        pwrite(file, text, count, 0) == (ssize_t)count) {
        json_object_object_add(returned, "bytes", json_object_new_int64((int64_t)count));
        tell("returned", returned);
    } else {
        json_object_put(returned);
    }
    json_object_put(object);
}

/* ---- what it is told ---- */

static tfos_status read_payload(tfos__buffer *out, tfos_error *error)
{
    int file = file_of("TFOS_PAYLOAD_FD");
    off_t at = 0;
    if (file < 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "`tfos trainer` is the program of a node of a cluster; use `tfos train`, or "
                          "tensorflowonspark.native.Trainer in Python");
    }
    for (;;) {
        TFOS_TRY(tfos__buffer_reserve(out, out->size + (1 << 16), error));
        ssize_t got = pread(file, out->data + out->size, 1 << 16, at);
        if (got < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "the options of the trainer cannot be read");
        }
        if (got == 0 || out->size > PAYLOAD_BYTES) {
            return TFOS_OK;
        }
        at += got > 0 ? got : 0;
        out->size += got > 0 ? (size_t)got : 0;
    }
}

/* What the node knows of itself and of its application; the caller gives it back. */
static tfos_status read_context(json_object **out, tfos_error *error)
{
    const char *text = getenv("TFOS_CONTEXT");
    tfos__json_fault fault;
    return text != NULL ? tfos__json_object_parse(text, strlen(text), CONTEXT_DEPTH, out, &fault, error)
                        : tfos__fail(error, TFOS_INVALID, "TFOS_CONTEXT: expected what a node tells, found nothing");
}

/* In the folder of Spark's files on this executor. */
static tfos_status find_shipped(json_object *context, const char *name, char **out, tfos_error *error)
{
    const char *files = tfos__json_text(tfos__json_member(context, "spark"), "files");
    if (files[0] == '\0') {
        return tfos__fail(error, TFOS_INVALID, "model: '%s' travels with a Spark application, and this node is in none",
                          tfos__printable_text(name).text);
    }
    return asprintf(out, "%s/%s", files, name) >= 0 ? TFOS_OK : tfos__fail_memory(error, strlen(name));
}

static tfos_status find_model(json_object *context, tfos__trainer_options *options, char **made, tfos_error *error)
{
    const size_t prefix = sizeof TFOS__TRAINING_SHIPPED - 1;
    if (strncmp(options->model, TFOS__TRAINING_SHIPPED, prefix) != 0) {
        return tfos__path_local(options->model, &options->model, error);
    }
    TFOS_TRY(find_shipped(context, options->model + prefix, made, error));
    options->model = *made;
    return TFOS_OK;
}

/* The rest of the options, which is the node's. `*made` is a text of theirs. */
static tfos_status complete_options(tfos__trainer_options *options, char **made, tfos_error *error)
{
    json_object *context = NULL;
    TFOS_TRY(read_context(&context, error));
    json_object *attempt = tfos__json_member_of(tfos__json_member(context, "node"), "attempt", json_type_int);
    options->attempt = json_object_get_int64(attempt);
    tfos_status status = find_model(context, options, made, error);
    json_object_put(context);
    return status;
}

/* ---- all of it ---- */

static void say_stopped(const tfos__trainer_outcome *outcome)
{
    tfos__note("stopped by a signal behind step %lld; %s%s", (long long)outcome->steps,
               outcome->checkpoint != NULL ? "its checkpoint: " : "no checkpoint was written",
               outcome->checkpoint != NULL ? outcome->checkpoint : "");
}

/* *stopped: before the end, by a signal. Nobody is to take that for the end. */
static tfos_status train(tfos__trainer_options *options, bool *stopped, tfos_error *error)
{
    const tfos__tensorflow *tf;
    char *model = NULL;
    tfos__trainer_outcome outcome;
    const tfos__trainer_listener listener = {
        .report = report, .say = say, .pace = take_pace, .stops = stops, .breaks = breaks};
    setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0); /* before it is loaded: it looks once */
    TFOS_TRY(tfos__tensorflow_load(options->python, &tf, error));
    tfos_status status = complete_options(options, &model, error);
    status = status == TFOS_OK ? tfos__trainer_run(tf, options, &listener, &outcome, error) : status;
    if (status == TFOS_OK) {
        *stopped = outcome.end == TFOS__TRAINER_END_STOPPED;
        if (*stopped) {
            say_stopped(&outcome);
        }
        hand_over(options, &outcome);
        tfos__trainer_outcome_reset(&outcome);
    }
    free(model);
    return status;
}

static void fail(const tfos_error *error)
{
    json_object *raised = json_object_new_object();
    json_object_object_add(raised, "text", json_object_new_string(error->message));
    tell("raised", raised);
    tfos__note("%s", error->message);
}

tfos__training_exit tfos__training_run(void)
{
    tfos_error error = {0};
    tfos__buffer payload = {0};
    tfos__trainer_options options;
    watch_signals();
    tfos_status status = read_payload(&payload, &error);
    status = status == TFOS_OK ? tfos__trainer_options_parse((const char *)payload.data, payload.size, &options, &error)
                               : status;
    tfos__buffer_reset(&payload);
    if (status != TFOS_OK) {
        fail(&error);
        return TFOS__TRAINING_EXIT_ORDERS;
    }
    bool stopped = false;
    status = train(&options, &stopped, &error);
    tfos__trainer_options_reset(&options);
    if (status != TFOS_OK) {
        fail(&error);
        return TFOS__TRAINING_EXIT_FAILED;
    }
    return stopped ? TFOS__TRAINING_EXIT_STOPPED : TFOS__TRAINING_EXIT_OK;
}

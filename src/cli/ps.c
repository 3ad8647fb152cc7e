/* tfos ps: a TensorFlow server without Python, for parameter servers and the workers of ParameterServerStrategy.
 *
 * TensorFlow has no way to stop a server, so the process ends at once when it is told to: the kernel closes its port.
 */
#include <stdlib.h>

#include "base/status.h"
#include "cli/cli.h"
#include "fs/fs.h"
#include "tensorflow/ops.h"
#include "tensorflow/server.h"

typedef struct ps_options {
    const char *cluster_spec;
    const char *job;
    int64_t task; /* -1: not given */
    const char *python;
    const char *tensorflow;
    tfos__cli_texts op_libraries;
} ps_options;

/* A task of a cluster, from the options and TF_CONFIG. */
typedef struct ps_place {
    tfos__cluster_spec cluster;
    char job[TFOS__CLUSTER_SPEC_MAX_NAME_BYTES + 1];
    int64_t task;
} ps_place;

static tfos_status read_text(const char *option, tfos__buffer *out, tfos_error *error)
{
    if (option[0] == '@') {
        return tfos__file_slurp(NULL, option + 1, TFOS__CLUSTER_SPEC_MAX_BYTES, out, error);
    }
    return tfos__buffer_append(out, option, strlen(option), error);
}

static tfos_status read_spec(const char *option, tfos__cluster_spec *out, tfos_error *error)
{
    tfos__buffer text = {0};
    tfos_status status = read_text(option, &text, error);
    if (status == TFOS_OK) {
        status = tfos__cluster_spec_init(out, (const char *)text.data, text.size, error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "--cluster-spec");
        }
    }
    tfos__buffer_reset(&text);
    return status;
}

/* What the options do not say, TF_CONFIG does. */
static tfos_status read_config(const ps_options *options, ps_place *out, tfos_error *error)
{
    const char *text = getenv("TF_CONFIG");
    bool is_complete = options->cluster_spec != NULL && options->job != NULL && options->task >= 0;
    tfos__cluster_config config = {.task = -1};
    if (!is_complete && text != NULL && text[0] != '\0') {
        tfos_status status = tfos__cluster_config_init(&config, text, strlen(text), error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "the environment variable TF_CONFIG");
            return status;
        }
    }
    out->cluster = config.cluster;
    memcpy(out->job, config.job, sizeof out->job);
    out->task = config.task;
    return TFOS_OK;
}

static tfos_status fail_missing(const char *option, const char *key, tfos_error *error)
{
    return tfos__fail(error, TFOS_INVALID,
                      "%s is missing, and %s in the environment variable TF_CONFIG too; `tfos ps "
                      "--help` shows how",
                      option, key);
}

static tfos_status find_place(const ps_options *options, ps_place *out, tfos_error *error)
{
    const tfos__cluster_job *job;
    TFOS_TRY(read_config(options, out, error));
    if (options->cluster_spec != NULL) {
        tfos__cluster_spec_reset(&out->cluster);
        TFOS_TRY(read_spec(options->cluster_spec, &out->cluster, error));
    }
    if (options->job != NULL) {
        if (strlen(options->job) >= sizeof out->job) {
            return tfos__fail(error, TFOS_INVALID, "--job: expected a name of at most %d letters, found %zu",
                              TFOS__CLUSTER_SPEC_MAX_NAME_BYTES, strlen(options->job));
        }
        strcpy(out->job, options->job);
    }
    out->task = options->task >= 0 ? options->task : out->task;
    if (out->cluster.job_count == 0) {
        return fail_missing("--cluster-spec", "\"cluster\"", error);
    }
    if (out->job[0] == '\0') {
        return fail_missing("--job", "the \"type\" of \"task\"", error);
    }
    if (out->task < 0) {
        return fail_missing("--task", "the \"index\" of \"task\"", error);
    }
    return tfos__cluster_spec_find(&out->cluster, out->job, out->task, &job, error);
}

/* What TensorFlow reads when it is loaded; what the user has set stays. */
static void set_environment(const ps_options *options)
{
    setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0); /* warnings and errors */
    /* Without it, calls to a task that has died wait for it for ever. */
    setenv("GRPC_FAIL_FAST", "use_caller", 0);
    if (options->tensorflow != NULL) {
        setenv("TFOS_TENSORFLOW_LIB", options->tensorflow, 1);
    }
}

static tfos_status serve(const ps_options *options, ps_place *place, tfos_error *error)
{
    const tfos__tensorflow *tf;
    const tfos__cluster_job *job;
    TF_Server *server;
    TFOS_TRY(find_place(options, place, error));
    set_environment(options);
    TFOS_TRY(tfos__tensorflow_load(options->python, &tf, error));
    if (getenv("TFOS_FEED_FD") != NULL) {
        TFOS_TRY(tfos__ops_register(tf, error)); /* the datasets of its workers read the feed of this process */
    }
    for (size_t i = 0; i < options->op_libraries.count; i++) {
        TFOS_TRY(tfos__tensorflow_load_ops(tf, options->op_libraries.text[i], error));
    }
    TFOS_TRY(tfos__server_start(tf, &place->cluster, place->job, place->task, &server, error));
    TFOS_TRY(tfos__cluster_spec_find(&place->cluster, place->job, place->task, &job, error));
    tfos__cli_note("serving %s:%lld on %s (TensorFlow %s)", place->job, (long long)place->task,
                   job->addresses[place->task], tf->version);
    return tfos__server_join(tf, server, error);
}

static int run(int argc, char **argv)
{
    ps_options options = {.task = -1};
    tfos__cli_inputs inputs;
    int code;
    if (!tfos__cli_parse(&tfos__cli_ps, argc, argv, &options, &inputs, &code)) {
        return code;
    }
    const char *extra = inputs.count > 0 ? inputs.text[0] : NULL;
    free(inputs.text);
    if (extra != NULL) {
        return tfos__cli_fail_usage("`tfos ps` takes options only, found '%s'; `tfos ps --help` tells more", extra);
    }
    tfos__cli_signals_serve();
    tfos_error error;
    ps_place place = {0};
    serve(&options, &place, &error);
    tfos__cluster_spec_reset(&place.cluster);
    code = tfos__cli_fail(&error);
    /* TensorFlow's threads may be running: its destructors must not. */
    fflush(NULL);
    _Exit(code);
}

static const tfos__cli_option options_of_ps[] = {
    {.name = "cluster-spec",
     .value = "JSON",
     .kind = CLI_TEXT,
     .offset = offsetof(ps_options, cluster_spec),
     .help = "the tasks of the cluster, {\"ps\": [\"host:port\", …], \"worker\": […]}, or @FILE (default: \"cluster\" "
             "in TF_CONFIG)"},
    {.name = "job",
     .value = "NAME",
     .kind = CLI_TEXT,
     .offset = offsetof(ps_options, job),
     .help = "the job of this task: ps, worker, … (default: the \"type\" of \"task\" in TF_CONFIG)"},
    {.name = "task",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(ps_options, task),
     .least = 0,
     .most = TFOS__CLUSTER_SPEC_MAX_TASKS - 1,
     .help = "the index of this task in its job (default: the \"index\" of \"task\" in TF_CONFIG)"},
    {.name = "python",
     .value = "PATH",
     .kind = CLI_TEXT,
     .offset = offsetof(ps_options, python),
     .help = "use the TensorFlow of this Python, which is not run unless its packages lie in unusual places (default: "
             "PYSPARK_PYTHON, VIRTUAL_ENV, python3)"},
    {.name = "tensorflow",
     .value = "PATH",
     .kind = CLI_TEXT,
     .offset = offsetof(ps_options, tensorflow),
     .help = "TensorFlow's library, libtensorflow_cc.so.2 or libtensorflow.so.2, or its folder (default: "
             "TFOS_TENSORFLOW_LIB)"},
    {.name = "op-library",
     .value = "PATH",
     .kind = CLI_TEXTS,
     .offset = offsetof(ps_options, op_libraries),
     .help = "a library of ops to load, as tf.load_op_library does; may be given several times"},
};

const tfos__cli_command tfos__cli_ps = {
    .name = "ps",
    .summary = "serve as a parameter server or worker of a TensorFlow cluster, without Python",
    .synopsis = "tfos ps --cluster-spec JSON --job ps --task 0 [OPTIONS]",
    .details =
        "Serves until it gets SIGTERM (exit code 0) or Ctrl-C (130), and ends at once. Says on stderr when it is up;\n"
        "prints nothing to stdout. The port is open to every host that can reach it, and TensorFlow encrypts nothing:\n"
        "run it in a network that you trust. TF_CPP_MIN_LOG_LEVEL=0 shows more of what TensorFlow does.\n\n"
        "Examples:\n"
        "  tfos ps --cluster-spec '{\"ps\": [\"hostA:2222\"], \"worker\": [\"hostB:2222\"]}' --job ps --task 0\n"
        "  tfos ps --cluster-spec @cluster.json --job worker --task 0 --python /opt/env/bin/python\n"
        "  TF_CONFIG='{\"cluster\": {\"ps\": [\"hostA:2222\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}' tfos ps\n",
    .options = options_of_ps,
    .option_count = sizeof options_of_ps / sizeof options_of_ps[0],
    .run = run,
};

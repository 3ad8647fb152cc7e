/* The options of clusters and feeds, from keywords that have the names of their fields. */
#include "_native.h"

#include <string.h>

/* Fills in the options from keywords; the words and the payload come later. */
static bool parse(PyObject *args, PyObject *keywords, tfos__python_cluster_options *out)
{
    static char *names[] = {"nodes",          "program",      "payload",     "context",     "host",        "ps",
                            "master",         "evaluator",    "parallel",    "no_barrier",  "spark_feeds", "native_ps",
                            "native_workers", "keep_port",    "gpus",        "attempt",     "timeout_ms",  "slots",
                            "slots_most",     "slots_reason", "environment", "tensorboard", "settings",    "command",
                            "folder",         "all_gpus",     NULL};
    tfos_cluster_options *options = &out->options;
    PyObject **words = out->from;
    int evaluator = 0, parallel = 0, no_barrier = 0, spark_feeds = 0, native_ps = 0, native_workers = 0, keep_port = 0;
    long long timeout_ms = options->timeout_ms, slots = options->slots, slots_most = options->slots_most;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "iOy*s|$zizpppppppiiLLLzOOOzzi:Cluster", names, &options->nodes,
                                     &words[0], &out->payload, &options->context, &options->host, &options->ps,
                                     &options->master, &evaluator, &parallel, &no_barrier, &spark_feeds, &native_ps,
                                     &native_workers, &keep_port, &options->gpus, &options->attempt, &timeout_ms,
                                     &slots, &slots_most, &options->slots_reason, &words[1], &words[2], &words[3],
                                     &options->command, &options->folder, &options->all_gpus)) {
        return false;
    }
    options->evaluator = evaluator;
    options->parallel = parallel;
    options->no_barrier = no_barrier;
    options->spark_feeds = spark_feeds;
    options->native_ps = native_ps;
    options->native_workers = native_workers;
    options->keep_port = keep_port;
    options->timeout_ms = timeout_ms;
    options->slots = slots;
    options->slots_most = slots_most;
    options->payload = out->payload.buf;
    options->payload_bytes = (size_t)out->payload.len;
    return true;
}

void tfos__python_cluster_options_reset(tfos__python_cluster_options *old)
{
    for (int i = 0; i < TFOS__PYTHON_WORD_LISTS; i++) {
        tfos__python_strings_reset(&old->words[i]);
    }
    PyBuffer_Release(&old->payload);
    Py_CLEAR(old->args);
    Py_CLEAR(old->keywords);
}

bool tfos__python_cluster_options_init(PyObject *args, PyObject *keywords, tfos__python_cluster_options *out)
{
    *out = (tfos__python_cluster_options){.from = {Py_None, Py_None, Py_None, Py_None}};
    tfos_cluster_options_init(&out->options, sizeof out->options);
    if (!parse(args, keywords, out)) {
        return false;
    }
    out->args = Py_NewRef(args);
    out->keywords = Py_XNewRef(keywords);
    for (int i = 0; i < TFOS__PYTHON_WORD_LISTS; i++) {
        if (out->from[i] != Py_None &&
            !tfos__python_strings_init(out->from[i], PyUnicode_FSConverter, &out->words[i])) {
            tfos__python_cluster_options_reset(out);
            return false;
        }
    }
    out->options.program = out->words[0].items;
    out->options.environment = out->words[1].items;
    out->options.tensorboard = out->words[2].items;
    out->options.settings = out->words[3].items;
    return true;
}

bool tfos__python_feed_options_init(PyObject *args, PyObject *keywords, tfos_feed_options *out)
{
    static char *names[] = {"queue", "partitions", "inference", "determinate", "again", "timeout_ms", NULL};
    long long partitions, timeout_ms;
    int inference, determinate, again;
    tfos_feed_options_init(out, sizeof *out);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sLpppL:feed", names, &out->queue, &partitions, &inference,
                                     &determinate, &again, &timeout_ms)) {
        return false;
    }
    out->partitions = partitions;
    out->inference = inference != 0;
    out->determinate = determinate != 0;
    out->again = again != 0;
    out->timeout_ms = timeout_ms;
    return true;
}

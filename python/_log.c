/* The library's log in Python's logging. Threads of the library never take the GIL: their lines are queued, and
 * whichever Python thread comes by next hands them on. */
#include "_native.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct log_line {
    struct log_line *next;
    tfos_log_level level;
    char text[];
} log_line;

enum { LOG_LINES_MAX = 1000 }; /* more than this wait only if Python does nothing at all; the newest are dropped */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static log_line *log_first;
static log_line **log_end = &log_first;
static int log_count;
static PyObject *logger;

static log_line *log_take_all(void)
{
    pthread_mutex_lock(&log_lock);
    log_line *lines = log_first;
    log_first = NULL;
    log_end = &log_first;
    log_count = 0;
    pthread_mutex_unlock(&log_lock);
    return lines;
}

void tfos__python_log_drain(void)
{
    static const int python_level[] = {
        [TFOS_LOG_ERROR] = 40, [TFOS_LOG_WARN] = 30, [TFOS_LOG_INFO] = 20, [TFOS_LOG_DEBUG] = 10};
    log_line *line = log_take_all();
    while (line != NULL) {
        /* Paths are bytes, and a line may name one that is no text. */
        PyObject *text = PyUnicode_DecodeUTF8(line->text, (Py_ssize_t)strlen(line->text), "replace");
        int level = python_level[line->level];
        PyObject *result = text != NULL ? PyObject_CallMethod(logger, "log", "isO", level, "%s", text) : NULL;
        if (result == NULL) {
            PyErr_WriteUnraisable(logger);
        }
        Py_XDECREF(text);
        Py_XDECREF(result);
        log_line *next = line->next;
        free(line);
        line = next;
    }
}

static int drain_when_called(void *unused)
{
    (void)unused;
    tfos__python_log_drain();
    return 0;
}

/* The library's log function: any thread, without the GIL. */
static void log_queue(tfos_log_level level, const char *message, void *context)
{
    (void)context;
    size_t bytes = strlen(message) + 1;
    log_line *line = malloc(sizeof *line + bytes);
    if (line == NULL) {
        return;
    }
    line->next = NULL;
    line->level = level;
    memcpy(line->text, message, bytes);
    pthread_mutex_lock(&log_lock);
    bool first = log_count == 0;
    bool keep = log_count < LOG_LINES_MAX;
    if (keep) {
        *log_end = line;
        log_end = &line->next;
        log_count++;
    }
    pthread_mutex_unlock(&log_lock);
    if (!keep) {
        free(line);
    } else if (first) {
        Py_AddPendingCall(drain_when_called, NULL);
    }
}

/* Called at exit, before the interpreter is taken down: afterwards no line reaches Python. */
static PyObject *log_stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    tfos_log_set(NULL, NULL);
    Py_END_ALLOW_THREADS
    tfos__python_log_drain();
    Py_RETURN_NONE;
}

static PyObject *get_logger(void)
{
    PyObject *logging = PyImport_ImportModule("logging");
    if (logging == NULL) {
        return NULL;
    }
    PyObject *found = PyObject_CallMethod(logging, "getLogger", "s", "tensorflowonspark");
    Py_DECREF(logging);
    return found;
}

int tfos__python_add_log(PyObject *module)
{
    static PyMethodDef functions[] = {{"log_stop", log_stop, METH_NOARGS, NULL}, {0}};
    logger = get_logger();
    if (logger == NULL || PyModule_AddFunctions(module, functions) < 0) {
        return -1;
    }
    tfos_log_set(log_queue, NULL);
    return 0;
}

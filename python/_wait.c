/* Calls that may last: they give up the GIL, and take it back now and then to look at signals, so that Ctrl-C ends
 * them. */
#include "_native.h"

/* The state of the thread is kept where `interrupted` finds it; a thread of somebody else, in an Arrow stream, has none
 * and is not asked. */
static _Thread_local PyThreadState *waiting;

void tfos__python_begin_waiting(void)
{
    waiting = PyEval_SaveThread();
}

void tfos__python_end_waiting(void)
{
    PyEval_RestoreThread(waiting);
    waiting = NULL;
}

bool tfos__python_interrupted(void *context)
{
    (void)context;
    if (waiting == NULL) {
        return false;
    }
    PyEval_RestoreThread(waiting);
    bool found = PyErr_CheckSignals() < 0;
    waiting = PyEval_SaveThread();
    return found;
}

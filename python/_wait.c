/* Calls that may last: they give up the GIL, and take it back now and then to look at signals, so that Ctrl-C ends
 * them. */
#include "_native.h"

/* The state of the thread, and how many such calls it is in: an Arrow stream that is written may be Python's, and its
 * code may call us. A thread of somebody else, in an Arrow stream, is in none and is not asked. */
static _Thread_local PyThreadState *waiting;
static _Thread_local int depth;

void tfos__python_begin_waiting(void)
{
    waiting = PyEval_SaveThread();
    depth++;
}

void tfos__python_end_waiting(void)
{
    PyEval_RestoreThread(waiting);
    depth--;
}

/* Whoever stands between the call and this may have taken the GIL, or not. */
bool tfos__python_interrupted(void *context)
{
    (void)context;
    if (depth == 0) {
        return false;
    }
    PyGILState_STATE state = PyGILState_Ensure();
    bool found = PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    return found;
}

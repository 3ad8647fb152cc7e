/* Ctrl-C while a kernel waits. A program that waits in TensorFlow does not get to handle SIGINT, since Python does so
 * only between instructions of its own; so kernels that wait count them. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "tensorflow/ops.h"

static atomic_uint interrupt_count;
static struct sigaction interrupt_before;

static void on_interrupt(int number, siginfo_t *info, void *context)
{
    atomic_fetch_add(&interrupt_count, 1);
    if ((interrupt_before.sa_flags & SA_SIGINFO) != 0) {
        interrupt_before.sa_sigaction(number, info, context);
    } else {
        interrupt_before.sa_handler(number);
    }
}

/* Counts SIGINTs before Python's handler notes them. Not where there is no Python, or where it was told to leave the
 * signal to the system. */
static void watch_interrupts(void)
{
    struct sigaction now;
    if (dlsym(RTLD_DEFAULT, "PyErr_SetInterrupt") == NULL || sigaction(SIGINT, NULL, &interrupt_before) != 0) {
        return;
    }
    bool is_handled = (interrupt_before.sa_flags & SA_SIGINFO) != 0 ||
                      (interrupt_before.sa_handler != SIG_DFL && interrupt_before.sa_handler != SIG_IGN);
    if (is_handled) {
        now = interrupt_before;
        now.sa_flags |= SA_SIGINFO;
        now.sa_sigaction = on_interrupt;
        sigaction(SIGINT, &now, NULL);
    }
}

void tfos__ops_interrupt(void)
{
    atomic_fetch_add(&interrupt_count, 1);
}

unsigned tfos__ops_interrupts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_interrupts);
    return atomic_load(&interrupt_count);
}

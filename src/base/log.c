/* Log. The function is called without a lock that another tfos call needs: it may log itself, or replace itself. So
 * that nobody is called after having been replaced, callers are counted, and tfos_log_set waits for those of other
 * threads. */
#include "base/log.h"

#include <pthread.h>

#include "base/choice.h"

static const char *const level_names[] = {"error", "warn", "info", "debug", NULL};
TFOS__CHOICE_FUNCTIONS(log_level, "level of the log", level_names)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
static tfos_log_function current;
static void *current_context;
static int inside;                  /* calls under way, of all threads */
static _Thread_local int inside_me; /* … of this thread */

void tfos_log_set(tfos_log_function function, void *context)
{
    pthread_mutex_lock(&lock);
    current = function;
    current_context = context;
    while (inside > inside_me) {
        pthread_cond_wait(&left, &lock);
    }
    pthread_mutex_unlock(&lock);
}

void tfos_log_write(tfos_log_level level, const char *message)
{
    pthread_mutex_lock(&lock);
    tfos_log_function function = current;
    void *context = current_context;
    inside += function != NULL;
    pthread_mutex_unlock(&lock);
    if (function == NULL) {
        return;
    }
    inside_me++;
    function(level, message, context);
    inside_me--;
    pthread_mutex_lock(&lock);
    inside--;
    pthread_cond_broadcast(&left);
    pthread_mutex_unlock(&lock);
}

/* Log. One mutex keeps lines whole and makes replacing the function safe: when tfos_log_set returns, the old one is not
 * running any more. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tfos_log_function current;
static void *current_context;

void tfos_log_set(tfos_log_function function, void *context)
{
    pthread_mutex_lock(&lock);
    current = function;
    current_context = context;
    pthread_mutex_unlock(&lock);
}

void tfos__log(tfos_log_level level, const char *format, ...)
{
    pthread_mutex_lock(&lock);
    if (current != NULL) {
        char line[TFOS_ERROR_MESSAGE_BYTES];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(line, sizeof line, format, arguments);
        va_end(arguments);
        current(level, line, current_context);
    }
    pthread_mutex_unlock(&lock);
}

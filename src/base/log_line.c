/* A line for the log. Apart from the log itself, because libraries of ours that stand beside libtfos.so, as that of the
 * ops does, have this and not a log of their own, to which nobody would listen. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"

void tfos__log(tfos_log_level level, const char *format, ...)
{
    char line[TFOS_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    tfos_log_write(level, line);
}

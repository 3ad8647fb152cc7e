/* stderr is shared: with the driver or the executor, and with all whom they start. So it is not made non-blocking,
 * which would be so for all of them. A pipe that is ready has room for PIPE_BUF bytes, and one write of no more than
 * that comes out in one piece. */
#include "service/note.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tfos__note(const char *format, ...)
{
    char line[PIPE_BUF] = "tfos: ";
    size_t used = strlen(line);
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, sizeof line - used, format, arguments);
    va_end(arguments);
    size_t count = strlen(line);
    line[count] = '\n'; /* in the place of the terminator */
    if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) {
        (void)!write(STDERR_FILENO, line, count + 1);
    }
}

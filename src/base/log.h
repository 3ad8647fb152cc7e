/* Log lines of the library, handed to the function that the program has set. */
#ifndef TFOS_BASE_LOG_H
#define TFOS_BASE_LOG_H

#include "tfos.h"

void tfos__log(tfos_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

/* What a process costs, as the kernel counts it. */
#ifndef TFOS_TESTS_HELPER_PROCESS_H
#define TFOS_TESTS_HELPER_PROCESS_H

#include <stddef.h>

size_t helper_process_threads(long pid);

/* Processor time that it has taken, in clock ticks. */
long helper_process_ticks(long pid);

#endif

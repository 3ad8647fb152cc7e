/* The stories of test_run.c, told by threads. */
#define WITH_THREADS
#include "test_run.c"

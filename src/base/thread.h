/* Threads of ours in processes of others, and waits that a clock which is set does not prolong. */
#ifndef TFOS_BASE_THREAD_H
#define TFOS_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* As pthread_create. The thread takes no signals: these are for the program's own threads, whose handlers may not
 * expect ours. */
int tfos__thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

/* A condition for tfos__condition_wait. */
void tfos__condition_init(pthread_cond_t *condition);

/* Waits with the lock held, for so many milliseconds at most. False: they are over. */
bool tfos__condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t most_ms);

#endif

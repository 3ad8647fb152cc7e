/* Carrying out calls: what one worker does for each, together with the others. A machine without threads of its own;
 * whoever has it calls it from one thread at a time. */
#ifndef TFOS_COLLECTIVE_RUN_H
#define TFOS_COLLECTIVE_RUN_H

#include "collective/board.h"
#include "collective/call.h"
#include "collective/far.h"
#include "collective/hosts.h"

typedef struct tfos__runner tfos__runner;

/* How a worker is called in messages: "worker:1 on host". */
typedef const char *tfos__runner_name(void *context, size_t rank);

/* Asked about ten times a second by whoever waits, with the rank of the worker that is waited for; a failure ends the
 * wait. */
typedef tfos_status tfos__runner_look(void *context, size_t missing, tfos_error *error);

/* Everything that is pointed to stays the caller's, and outlives the runner. */
typedef struct tfos__runner_options {
    tfos__board *board; /* of this host; has tfos__runner_far_bytes if there are others */
    const tfos__hosts *hosts;
    size_t rank;
    tfos__far *far; /* the links to other hosts, if there are any and this is the first worker here; else NULL */
    tfos__runner_name *name;
    tfos__runner_look *look; /* whether those that are waited for still live */
    void *context;           /* of both */
} tfos__runner_options;

/* What a board must have room for if workers are on several hosts. */
size_t tfos__runner_far_bytes(size_t size);

tfos_status tfos__runner_new(const tfos__runner_options *options, tfos__runner **out, tfos_error *error);
void tfos__runner_free(tfos__runner *runner);

/* Goes through with a call that all others make as well, or have joined before. MISMATCH: another worker does something
 * else; it names both. Whatever fails, nothing more can come of the runner, nor of those of the others. */
tfos_status tfos__runner_call(tfos__runner *runner, const tfos__call *call, double weight, size_t root,
                              tfos_call_result *out, tfos_error *error);

/* Takes part in the calls of the others with nothing of its own, until all have joined. *last is the one that did last,
 * the first of them if several did at once. */
tfos_status tfos__runner_join(tfos__runner *runner, size_t *last, tfos_error *error);

/* Grows as long as anything goes on. */
uint64_t tfos__runner_progress(const tfos__runner *runner);

#endif

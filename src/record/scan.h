/* Scan: a pool of threads that works through the chunks of many files.
 *
 * Small files that follow each other form a group, which is read as one sequence of chunks; a large file is a group of
 * its own. One thread at a time makes the next chunk of a group (see source.h); then it works on that chunk while
 * another makes the one after it. Up to as many groups as there are threads are open at a time, so that compressed
 * files are inflated side by side.
 *
 * Results are handed out in order, or as they are ready. A bounded number of chunks is under way, counted from the
 * moment that it is taken up until its result is handed out; the one that the consumer waits for next may always be
 * taken up. */
#ifndef TFOS_RECORD_SCAN_H
#define TFOS_RECORD_SCAN_H

#include "record/mixer.h"
#include "record/store.h"

/* What is done with a chunk. Called by several threads at once, with numbers from 0 to threads - 1 (0 when there are
 * none). */
typedef struct tfos__scan_work {
    /* Makes a result of the chunk, or NULL if it gives none. On failure a result may be given as well: what came before
     * the failure. */
    tfos_status (*run)(void *context, int thread, tfos__chunk *chunk, void **result, tfos_error *error);
    /* Frees a result that nobody took. */
    void (*drop)(void *context, void *result);
    void *context;
} tfos__scan_work;

typedef struct tfos__scan_options {
    tfos__source_options source;
    bool joined;        /* all files are one group: chunks do not end where files do */
    tfos__mixer *mixer; /* NULL, or, if they are joined: makes the chunks */
    tfos_store *store;  /* NULL, or: where chunks come from, and are left */
    int threads;
    bool ordered;
    bool (*interrupted)(void *context); /* see tfos_read_options */
    void *interrupted_context;
} tfos__scan_options;

typedef struct tfos__scan tfos__scan;

/* Replaces -1 by the setting, and that by the number of cores. */
tfos_status tfos__scan_threads(int32_t *threads, tfos_error *error);

/* The number of `thread` numbers that the work must expect: at least 1. */
int tfos__scan_workers(int threads);

/* `paths` stays the caller's and lives as long as the scan. *out is set before the work begins, which may be before
 * this returns; it is NULL after a failure. */
tfos_status tfos__scan_open(const tfos_paths *paths, const tfos__scan_options *options, const tfos__scan_work *work,
                            tfos__scan **out, tfos_error *error);

/* Whether this process opened the scan. After a fork the child has a copy without the threads, whose locks may be held
 * for ever: it must leave it alone. */
bool tfos__scan_is_mine(const tfos__scan *scan);

/* The next result that is not NULL. After an error, the same error again. One thread at a time. */
tfos_status tfos__scan_next(tfos__scan *scan, void **out, tfos_error *error);

/* Any thread. */
void tfos__scan_progress(const tfos__scan *scan, tfos_progress *out);
void tfos__scan_cancel(tfos__scan *scan);
/* Work tells how much memory its results take up (and, negative, give back when they are handed out). */
void tfos__scan_count_memory(tfos__scan *scan, int64_t bytes);

void tfos__scan_close(tfos__scan *scan);

/* What the caller has set, and the defaults. `from` NULL: the defaults. */
tfos_status tfos__read_options_take(const tfos_read_options *from, tfos_read_options *out, tfos_error *error);

/* In the order of tfos_on_corrupt, with a NULL behind them. */
extern const char *const tfos__on_corrupt_names[];

#endif

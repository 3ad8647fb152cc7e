/* Verify: a scan that checks every checksum and reports what it had to skip. */
#include <stdlib.h>

#include "base/status.h"
#include "record/example.h"
#include "record/scan.h"

/* What a chunk's check found. There is one for every chunk, so that progress is seen. */
typedef struct report {
    size_t count;
    tfos__hole holes[];
} report;

typedef struct check_plan {
    bool parse;
    bool sequence;
    tfos__joined *joined; /* one for each thread */
} check_plan;

typedef struct checker {
    const check_plan *plan;
    tfos__joined *joined;
} checker;

static tfos_status check_record(void *context, size_t span, const uint8_t *record, size_t bytes, tfos_error *error)
{
    (void)span;
    const checker *mine = context;
    const check_plan *plan = mine->plan;
    if (plan->parse && !tfos__message_valid((tfos__wire){record, record + bytes}, plan->sequence, mine->joined)) {
        TFOS_TRY(tfos__joined_check(mine->joined, error));
        return tfos__fail(error, TFOS_CORRUPT, "the checksums match, but the record is no tf.train.%s",
                          plan->sequence ? "SequenceExample or Example" : "Example");
    }
    return TFOS_OK;
}

static tfos_status check_chunk(void *context, int thread, tfos__chunk *chunk, void **result, tfos_error *error)
{
    const check_plan *plan = context;
    checker mine = {plan, &plan->joined[thread]};
    TFOS_TRY(tfos__chunk_each(chunk, TFOS_ON_CORRUPT_SKIP, check_record, &mine, error));
    tfos__chunk_sort_holes(chunk);
    report *found = malloc(sizeof *found + chunk->hole_count * sizeof found->holes[0]);
    if (found == NULL) {
        return tfos__fail_memory(error, sizeof *found);
    }
    found->count = chunk->hole_count;
    if (chunk->hole_count > 0) {
        memcpy(found->holes, chunk->holes, chunk->hole_count * sizeof found->holes[0]);
    }
    *result = found;
    return TFOS_OK;
}

static void drop_report(void *context, void *result)
{
    (void)context;
    free(result);
}

static void tell(const report *found, tfos_damage_function function, void *context)
{
    for (size_t i = 0; i < found->count && function != NULL; i++) {
        const tfos__hole *hole = &found->holes[i];
        tfos_damage damage = {.path = hole->path,
                              .offset = hole->offset,
                              .bytes = hole->bytes,
                              .record = hole->record,
                              .status = hole->status,
                              .message = hole->message};
        function(&damage, context);
    }
}

/* Another thread may draw a progress bar from this struct meanwhile. */
static void publish(const tfos__scan *scan, tfos_progress *out)
{
    if (out != NULL) {
        tfos_progress now;
        tfos__scan_progress(scan, &now);
        __atomic_store_n(&out->total_bytes, now.total_bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&out->done_bytes, now.done_bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&out->records, now.records, __ATOMIC_RELAXED);
        __atomic_store_n(&out->skipped_records, now.skipped_records, __ATOMIC_RELAXED);
        __atomic_store_n(&out->skipped_bytes, now.skipped_bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&out->memory_bytes, now.memory_bytes, __ATOMIC_RELAXED);
    }
}

static tfos_status run_checks(const tfos_paths *paths, const tfos_read_options *options, int threads, check_plan *plan,
                              tfos_damage_function function, void *context, tfos_progress *progress, tfos_error *error)
{
    /* Chunks that stay in a core's cache between reading and checking; larger ones where a hand-over costs more than
     * that gains. */
    enum { CHUNK_ROWS = 1 << 20, CHUNK_BYTES = 128 * 1024, THREADED_CHUNK_BYTES = 1 << 20 };
    tfos__scan_options scan_options = {.source = {.codec = options->codec,
                                                  .on_corrupt = TFOS_ON_CORRUPT_SKIP,
                                                  .chunk_rows = CHUNK_ROWS,
                                                  .chunk_bytes = threads > 0 ? THREADED_CHUNK_BYTES : CHUNK_BYTES,
                                                  .range_start = options->range_start,
                                                  .range_end = options->range_end},
                                       .threads = threads,
                                       .ordered = true,
                                       .interrupted = options->interrupted,
                                       .interrupted_context = options->interrupted_context};
    tfos__scan_work work = {check_chunk, drop_report, plan};
    tfos__scan *scan = NULL;
    TFOS_TRY(tfos__scan_open(paths, &scan_options, &work, &scan, error));
    tfos_status status;
    void *result;
    while ((status = tfos__scan_next(scan, &result, error)) == TFOS_OK) {
        tell(result, function, context);
        free(result);
        publish(scan, progress);
    }
    publish(scan, progress);
    tfos__scan_close(scan);
    return status == TFOS_END ? TFOS_OK : status;
}

tfos_status tfos_records_verify(const tfos_paths *paths, const tfos_read_options *options, bool parse,
                                tfos_damage_function function, void *context, tfos_progress *progress,
                                tfos_error *error)
{
    tfos_read_options taken;
    TFOS_TRY(tfos__read_options_take(options, &taken, error));
    options = &taken;
    int32_t threads = options->threads;
    TFOS_TRY(tfos__scan_threads(&threads, error));
    int workers = tfos__scan_workers(threads);
    check_plan plan = {.parse = parse,
                       .sequence = options->record != TFOS_RECORD_EXAMPLE,
                       .joined = calloc((size_t)workers, sizeof(tfos__joined))};
    if (plan.joined == NULL) {
        return tfos__fail_memory(error, (size_t)workers * sizeof(tfos__joined));
    }
    tfos_status status = run_checks(paths, options, threads, &plan, function, context, progress, error);
    for (int i = 0; i < workers; i++) {
        tfos__joined_reset(&plan.joined[i]);
    }
    free(plan.joined);
    return status;
}

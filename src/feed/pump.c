/* What a Spark task does with its partition, whichever language its rows come from: it asks for rows, feeds them, and
 * with inference takes results meanwhile; it proves the end, and says what went wrong.
 *
 *   source ── rows ──► pump ──► sink ══► programs
 *                      pump ◄── sink ◄══ results
 *
 * Whoever wants results asks for them, and rows are asked for in turn: results that are there go out first, then some
 * rows come in. So nothing is computed that nobody has use for, and what waits for results stays little. */
#include <assert.h>
#include <stdlib.h>

#include "base/options.h"
#include "base/status.h"
#include "column/spark_limit.h"
#include "feed/sink.h"

enum {
    PATIENCE_MS = 50,           /* where rows come slowly, consumers do not wait for a batch to fill */
    HELD_BYTES = 32 << 20,      /* that may wait for results, unless the program needs more rows to give any … */
    HELD_BATCH_BYTES = 2 << 20, /* … and how many are fed at a time */
};

struct tfos_pump {
    tfos__sink *sink;
    tfos_feeder *feeder; /* the sink, or NULL */
    tfos_pump_source source;
    bool begun;   /* what an earlier attempt has fed is behind us */
    bool feeding; /* there may be rows, and somebody wants them */
    bool over;
    tfos_error failure; /* what ended it, unless its status is OK; … */
    bool of_source;     /* … it is the source's */
};

static const tfos_pump_source defaults;

void tfos_pump_source_init(tfos_pump_source *source, size_t size)
{
    tfos__options_init(source, size, &defaults, sizeof defaults);
}

tfos_status tfos__pump_new(tfos__sink *sink, tfos_feeder *feeder, const tfos_pump_source *source, tfos_pump **out,
                           tfos_error *error)
{
    tfos_pump_source taken = {0};
    tfos_pump *pump = NULL;
    tfos_status status = tfos__options_take("tfos_pump_source", source, &defaults, &taken, sizeof taken, error);
    if (status == TFOS_OK) {
        assert(taken.next != NULL);
        pump = calloc(1, sizeof *pump);
        status = pump != NULL ? TFOS_OK : tfos__fail_memory(error, sizeof *pump);
    }
    if (status != TFOS_OK) {
        sink->functions->close(sink);
        return status;
    }
    *pump = (tfos_pump){.sink = sink, .feeder = feeder, .source = taken, .feeding = true};
    *out = pump;
    return TFOS_OK;
}

void tfos_pump_close(tfos_pump *pump)
{
    if (pump != NULL) {
        pump->sink->functions->close(pump->sink);
        free(pump);
    }
}

const tfos_feeder *tfos__pump_feeder(const tfos_pump *pump)
{
    return pump->feeder;
}

void tfos_spark_rows_set_pump(tfos_spark_rows *rows, const tfos_pump *pump)
{
    tfos__spark_rows_limit(rows, pump->sink->functions->least_lane(pump->sink));
}

/* ---- the source ---- */

static bool is_interrupted(const tfos_pump *pump)
{
    const tfos__patience *patience = &pump->sink->patience;
    return patience->interrupted != NULL && patience->interrupted(patience->context);
}

/* What a call of the source came to. Code that fails because its task is to end has no fault that anybody must know. */
static tfos_status hear_source(tfos_pump *pump, tfos_status status, tfos_error *error)
{
    if (status == TFOS_OK || status == TFOS_END) {
        return status;
    }
    pump->of_source = true;
    error->status = status == TFOS_RAISED && is_interrupted(pump) ? TFOS_CANCELLED : status;
    tfos__sink_locate(pump->sink, error);
    return error->status;
}

static tfos_status skip_fed(tfos_pump *pump, tfos_error *error)
{
    int64_t fed = pump->feeder != NULL ? tfos_feeder_fed(pump->feeder) : 0;
    int64_t skipped = 0;
    pump->begun = true;
    if (fed == 0 || pump->source.skip == NULL) {
        return TFOS_OK;
    }
    TFOS_TRY(hear_source(pump, pump->source.skip(pump->source.context, fed, &skipped, error), error));
    tfos_feeder_skip(pump->feeder, skipped);
    return TFOS_OK;
}

static tfos_status next_rows(tfos_pump *pump, tfos_batch **out, tfos_error *error)
{
    *out = NULL;
    if (is_interrupted(pump)) {
        return tfos__fail(error, TFOS_CANCELLED, "the task was interrupted while it was feeding");
    }
    if (!pump->begun) {
        TFOS_TRY(skip_fed(pump, error));
    }
    return hear_source(pump, pump->source.next(pump->source.context, PATIENCE_MS, HELD_BATCH_BYTES, out, error), error);
}

static tfos_status check_end(tfos_pump *pump, tfos_error *error)
{
    if (pump->source.check_end == NULL) {
        return TFOS_OK;
    }
    return hear_source(pump, pump->source.check_end(pump->source.context, error), error);
}

/* ---- feeding ---- */

/* No more rows are fed. END: nor is anything else left to be done. */
static tfos_status stop_feeding(tfos_pump *pump, tfos_status why, tfos_error *error)
{
    pump->feeding = false;
    return pump->sink->inference ? pump->sink->functions->exhaust(pump->sink, error) : why;
}

/* Feeds about a batch. END: the feed wants no more, and there are no results to be waited for. */
static tfos_status feed_some(tfos_pump *pump, tfos_error *error)
{
    tfos_batch *batch;
    tfos_status status = next_rows(pump, &batch, error);
    bool last = status == TFOS_END;
    if (status != TFOS_OK && !last) {
        return status;
    }
    status = batch != NULL ? pump->sink->functions->put_batch(pump->sink, batch, error) : TFOS_OK;
    tfos_batch_free(batch);
    if (status == TFOS_OK && last) {
        TFOS_TRY(check_end(pump, error));
    }
    bool stop = status == TFOS_END || (status == TFOS_OK && last);
    return stop ? stop_feeding(pump, status, error) : status;
}

/* ---- results ---- */

/* While there are rows, they are not waited for, unless too much is held: and then only as long as the program has rows
 * to work on, for one that wants a large batch would wait for us. */
static tfos_feeder_wait patience_for_results(const tfos_pump *pump)
{
    if (!pump->feeding) {
        return TFOS_WAIT_FOR_RESULTS;
    }
    bool full = pump->source.held_bytes != NULL && pump->source.held_bytes(pump->source.context) > HELD_BYTES;
    return full ? TFOS_WAIT_FOR_ROOM : TFOS_WAIT_NOT;
}

/* Until there are results. END: there are no more, and the partition is finished or the feed has ended. */
static tfos_status pump_on(tfos_pump *pump, tfos_batch **out, tfos_error *error)
{
    for (;;) {
        tfos_status status = TFOS_END;
        *out = NULL;
        if (pump->sink->inference) {
            status = pump->sink->functions->take_results(pump->sink, patience_for_results(pump), out, error);
        }
        if (*out != NULL || (status != TFOS_OK && status != TFOS_END)) {
            return status;
        }
        if (!pump->feeding) {
            status = pump->sink->functions->finish(pump->sink, error);
            return status == TFOS_OK ? TFOS_END : status;
        }
        TFOS_TRY(feed_some(pump, error));
    }
}

tfos_status tfos_pump_next(tfos_pump *pump, tfos_batch **out, tfos_error *error)
{
    tfos_batch *results = NULL;
    if (!pump->over) {
        tfos_error why = {.status = TFOS_OK};
        tfos_status status = pump_on(pump, &results, &why);
        pump->over = status != TFOS_OK;
        if (status != TFOS_OK && status != TFOS_END) {
            why.status = status;
            /* What was damaged on its way to a program has another way with another attempt. */
            why.fault = status == TFOS_CORRUPT && !pump->of_source ? TFOS_FAULT_AGAIN : why.fault;
            pump->failure = why;
            pump->sink->functions->give_up(pump->sink, &why);
        }
    }
    if (pump->failure.status != TFOS_OK && error != NULL) {
        *error = pump->failure;
    }
    if (!pump->over) {
        *out = results;
    }
    return !pump->over ? TFOS_OK : pump->failure.status != TFOS_OK ? pump->failure.status : TFOS_END;
}

void tfos_pump_give_up(tfos_pump *pump, tfos_error *why)
{
    tfos__sink_locate(pump->sink, why);
    pump->sink->functions->give_up(pump->sink, why);
}

/* The results of inference, as the Spark task takes them. Rows may go to several nodes, batch by batch; each answers
 * its own in their order, so the order of the whole is kept by remembering who was given which. */
#include <assert.h>
#include <inttypes.h>

#include "base/choice.h"
#include "base/clock.h"
#include "base/status.h"
#include "feed/feeder_state.h"

static const char *const wait_names[] = {"not", "for_results", "for_room", NULL};
TFOS__CHOICE_FUNCTIONS(feeder_wait, "wait", wait_names)

enum { WAIT_MS = 100, EXPLAIN_MS = 3000 };

tfos_status tfos__feeder_expect(tfos_feeder *feeder, const tfos__place *place, uint64_t rows, tfos_error *error)
{
    size_t index = (size_t)(place - feeder->places);
    bool more =
        feeder->expected_count > feeder->expected_first && feeder->expected[feeder->expected_count - 1].place == index;
    if (!more) {
        TFOS_TRY(tfos__array_reserve(&feeder->expected, feeder->expected_count, &feeder->expected_capacity,
                                     sizeof *feeder->expected, error));
        feeder->expected[feeder->expected_count++] = (tfos__expected){.place = index};
    }
    feeder->expected[feeder->expected_count - 1].rows += rows;
    return TFOS_OK;
}

/* Goes on to the next entry with rows. END: there is none now. */
static tfos_status begin_entry(tfos__place *place, bool *over, tfos_error *error)
{
    tfos__lane_reader *reader = &place->reader;
    reader->lane = place->results;
    TFOS_TRY(tfos__lane_reader_begin(reader, over, error));
    if (reader->entry.kind != TFOS__ENTRY_BATCH) {
        return tfos__fail(error, TFOS_CORRUPT, "the results of node %u on %s make no sense", place->index, place->host);
    }
    return TFOS_OK;
}

/* Tells the program that there is room for results, where there is more than before. */
static void ring_if_released(tfos__place *place)
{
    if (place->reader.released) {
        place->reader.released = false;
        tfos__place_ring(place);
    }
}

/* The first of the expected is done. What is done is moved out of the way now and then, for there may always be more.
 */
static void drop_first(tfos_feeder *feeder)
{
    feeder->expected_first++;
    if (feeder->expected_first * 2 >= feeder->expected_count) {
        feeder->expected_count -= feeder->expected_first;
        memmove(feeder->expected, feeder->expected + feeder->expected_first,
                feeder->expected_count * sizeof *feeder->expected);
        feeder->expected_first = 0;
    }
}

/* What the first place in the order has. OK with *out NULL: nothing yet. */
static tfos_status take(tfos_feeder *feeder, tfos_batch **out, tfos_error *error)
{
    tfos__expected *first = &feeder->expected[feeder->expected_first];
    tfos__place *place = &feeder->places[first->place];
    bool over = false;
    *out = NULL;
    tfos_status status = begin_entry(place, &over, error);
    ring_if_released(place);
    if (status == TFOS_END) {
        if (!over) {
            return TFOS_OK;
        }
        return tfos__fail(error, TFOS_MISMATCH,
                          "%" PRIu64 " rows of partition %" PRIu64
                          " got no result from node %u on %s: its program must "
                          "give one result for each row (batch_results), and has ended or given fewer",
                          first->rows, feeder->attempt.partition, place->index, place->host);
    }
    TFOS_TRY(status);
    int64_t count = tfos__min_i64((int64_t)place->reader.entry.rows - place->reader.row, (int64_t)first->rows);
    TFOS_TRY(tfos__lane_reader_copy(&place->reader, count, out, error));
    ring_if_released(place);
    first->rows -= (uint64_t)count;
    if (first->rows == 0) {
        drop_first(feeder);
    }
    return TFOS_OK;
}

tfos_status tfos__feeder_drain(tfos_feeder *feeder, tfos_error *error)
{
    while (feeder->expected_first < feeder->expected_count) {
        TFOS_TRY(tfos__batch_queue_reserve(&feeder->ready, error));
        tfos_batch *batch;
        TFOS_TRY(take(feeder, &batch, error));
        if (batch == NULL) {
            break;
        }
        tfos__batch_queue_put(&feeder->ready, batch);
    }
    return TFOS_OK;
}

/* A program that ended without results has a reason, which the coordinator may know. */
static tfos_status explain_missing(tfos_feeder *feeder, tfos_error *error)
{
    tfos_error missing = error != NULL ? *error : (tfos_error){.status = TFOS_MISMATCH};
    for (int64_t deadline = tfos__clock_ms() + EXPLAIN_MS; tfos__clock_ms() < deadline;) {
        tfos_status status = tfos__feeder_look_around(feeder, error);
        if (status == TFOS_MISMATCH) {
            break;
        }
        TFOS_TRY(status);
        tfos__bell_wait(feeder->bell, tfos__bell_read(feeder->bell), WAIT_MS);
    }
    if (error != NULL) {
        *error = missing;
    }
    return TFOS_MISMATCH;
}

/* Rows that were taken and never get a result would be waited for for ever. Those that nobody takes are the
 * coordinator's to notice. */
static tfos_status look_at_time(const tfos_feeder *feeder, int64_t since_ms, tfos_error *error)
{
    const tfos__expected *first = &feeder->expected[feeder->expected_first];
    const tfos__place *place = &feeder->places[first->place];
    tfos__lane_counts counts;
    if (feeder->timeout_ms <= 0 || tfos__clock_ms() - since_ms < feeder->timeout_ms) {
        return TFOS_OK;
    }
    tfos__lane_count(place->lane, &counts);
    if (counts.consumed_rows < counts.fed_rows) {
        return TFOS_OK;
    }
    tfos__fail(error, TFOS_MISMATCH,
               "no result came for %" PRId64 " s (feed_timeout): node %u on %s has taken all rows of partition %" PRIu64
               " that it was given, and at least %" PRIu64
               " of them have no result. A program must give one result for each row (batch_results)",
               feeder->timeout_ms / 1000, place->index, place->host, feeder->attempt.partition, first->rows);
    if (error != NULL) {
        error->fault = TFOS_FAULT_PROGRAM; /* another attempt would wait as long */
    }
    return TFOS_MISMATCH;
}

/* Whether the program that owes the next result has taken all rows that it was given. */
static bool is_hungry(const tfos_feeder *feeder)
{
    tfos__lane_counts counts;
    tfos__lane_count(feeder->places[feeder->expected[feeder->expected_first].place].lane, &counts);
    return counts.consumed_rows >= counts.fed_rows;
}

tfos_status tfos_feeder_take_results(tfos_feeder *feeder, tfos_feeder_wait wait, tfos_batch **out, tfos_error *error)
{
    assert(feeder->sink.inference);
    *out = tfos__batch_queue_take(&feeder->ready);
    if (*out != NULL) {
        return TFOS_OK;
    }
    int64_t since_ms = tfos__clock_ms();
    for (;;) {
        uint32_t seen = tfos__bell_read(feeder->bell);
        if (feeder->expected_first == feeder->expected_count) {
            return feeder->exhausted || wait != TFOS_WAIT_NOT ? TFOS_END : TFOS_OK;
        }
        tfos_status status = take(feeder, out, error);
        if (status == TFOS_MISMATCH) {
            return explain_missing(feeder, error);
        }
        if (status != TFOS_OK || *out != NULL || wait == TFOS_WAIT_NOT) {
            return status;
        }
        if (wait == TFOS_WAIT_FOR_ROOM && is_hungry(feeder)) {
            return TFOS_OK;
        }
        TFOS_TRY(tfos__feeder_look_around(feeder, error));
        TFOS_TRY(look_at_time(feeder, since_ms, error));
        tfos__bell_wait(feeder->bell, seen, WAIT_MS);
    }
}

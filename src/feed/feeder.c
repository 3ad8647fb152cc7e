/* A producer: a Spark task that feeds the rows of one partition.
 *
 * It has a connection to the coordinator, whose ledger lets it in and hears how far it came, and one Unix socket to
 * each node on its machine, which hands it a lane when it asks. Rows are committed in their order, to whichever lane,
 * one entry after the other: that is what makes one number say all about what was fed (feed/ledger.h). */
#include "feed/feeder_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "column/schema.h"
#include "feed/ledger.h"

enum {
    WAIT_MS = 100,
    PROGRESS_MS = 500, /* between two words to the coordinator about how far we are */
    ENDING_MS = 1000,  /* from a program that has ended until it does */
};

int64_t tfos_feeder_fed(const tfos_feeder *feeder)
{
    return (int64_t)feeder->fed;
}

void tfos_feeder_skip(tfos_feeder *feeder, int64_t rows)
{
    feeder->row += (uint64_t)rows;
}

void tfos__feeder_look(const tfos_feeder *feeder, tfos__feeder_view *out)
{
    *out =
        (tfos__feeder_view){.sent = feeder->sent, .batch_bytes = feeder->batch_bytes, .local_most = feeder->local_most};
    for (size_t i = 0; i < feeder->place_count; i++) {
        const tfos__place *place = &feeder->places[i];
        out->near += place->socket >= 0 && !place->far ? 1 : 0;
        out->far += place->socket >= 0 && place->far ? 1 : 0;
        out->unreached += place->socket < 0 && place->tried_ms != 0 ? 1 : 0;
        out->lanes += place->lane != NULL ? 1 : 0;
        out->lane_bytes += place->lane != NULL ? tfos__lane_used(place->lane) : 0;
    }
}

/* ---- what others say ---- */

static void hear_hungry(tfos_feeder *feeder, const tfos__message *message)
{
    uint64_t index = tfos__message_number(message, TFOS__FIELD_INDEX);
    for (size_t i = 0; i < feeder->place_count; i++) {
        if (feeder->places[i].index == index) {
            feeder->places[i].hungry = tfos__message_number(message, TFOS__FIELD_HUNGRY) != 0;
        }
    }
}

/* A feed that has ended wants no more. But where results are waited for, only a program can say so: they must not be
 * missing without a word. */
static tfos_status tell_end(const tfos_feeder *feeder, tfos_error *error)
{
    if (!feeder->sink.inference || feeder->terminated) {
        return TFOS_END;
    }
    return tfos__fail(error, TFOS_MISMATCH,
                      "every program has ended before all rows of partition %" PRIu64
                      " had their results: a program must take rows until the feed ends, and give one result for each",
                      feeder->attempt.partition);
}

tfos_status tfos__feeder_fail_as_told(tfos_feeder *feeder, const tfos__message *message, tfos_error *error)
{
    tfos_error told;
    tfos__message_error(message, &told);
    feeder->told = true;
    if (error != NULL) {
        *error = told;
    }
    return told.status;
}

/* Reads what the coordinator has sent; waits for it at most so long. END: the feed wants no more. */
static tfos_status hear_coordinator(tfos_feeder *feeder, int64_t timeout_ms, tfos_error *error)
{
    for (;;) {
        tfos__message message;
        tfos_status status = tfos__dial_receive(feeder->coordinator, timeout_ms, &message, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
        TFOS_TRY(status);
        switch (message.type) {
        case TFOS__MESSAGE_FEED_OVER:
            feeder->ended = true;
            feeder->terminated = tfos__message_number(&message, TFOS__FIELD_TERMINATED) != 0;
            return tell_end(feeder, error);
        case TFOS__MESSAGE_DISMISSED: /* we are done; or the feed has failed elsewhere */
            if (tfos__message_number(&message, TFOS__FIELD_ADMISSION) == TFOS__ADMISSION_COMPLETE) {
                feeder->acknowledged = true;
                return TFOS_OK;
            }
            return tfos__feeder_fail_as_told(feeder, &message, error);
        case TFOS__MESSAGE_REFUSED:
            return tfos__feeder_fail_as_told(feeder, &message, error);
        case TFOS__MESSAGE_NOTED:
            feeder->acknowledged = true;
            return TFOS_OK;
        case TFOS__MESSAGE_HUNGRY:
            hear_hungry(feeder, &message);
            break;
        case TFOS__MESSAGE_READ_BY_ALL:
            feeder->held_back = false;
            break;
        default:
            break;
        }
        timeout_ms = 0;
    }
}

tfos_status tfos__feeder_await_word(tfos_feeder *feeder, int64_t most_ms, tfos_error *error)
{
    for (int64_t deadline = tfos__clock_ms() + most_ms; tfos__clock_ms() < deadline;) {
        TFOS_TRY(hear_coordinator(feeder, tfos__max_i64(0, deadline - tfos__clock_ms()), error));
    }
    return TFOS_OK;
}

/* A node's socket is closed. If its program had ended before, nothing is wrong, or the coordinator will say what is.
 * Else the cluster fails or starts again, and the coordinator knows that, too. What a stand-in has met with on the way,
 * it knows by itself: unless that is a node that is gone, nobody else does. */
static tfos_status lose_place(tfos_feeder *feeder, tfos__place *place, tfos_error *error)
{
    tfos_error why = {.status = TFOS_OK};
    tfos__place_look(place);
    close(place->socket);
    place->socket = -1;
    tfos__stand_in_close(place->stand_in, &why);
    place->stand_in = NULL;
    bool had_lane = place->lane != NULL;
    if (place->finished || !had_lane) {
        place->finished = true;
        if (had_lane || why.status == TFOS_OK || tfos__feeder_has_places(feeder, false)) {
            return TFOS_OK;
        }
    }
    if (why.status == TFOS_OK || why.status == TFOS_IO) {
        TFOS_TRY(tfos__feeder_await_word(feeder, TFOS__FEEDER_GOING_MS, error));
    }
    return tfos__fail(error, why.status != TFOS_OK ? why.status : TFOS_IO, "node %u on %s is gone%s%s%s", place->index,
                      place->host, had_lane ? ", with rows that were fed to it" : "", why.status != TFOS_OK ? ": " : "",
                      why.status != TFOS_OK ? why.message : "");
}

void tfos__feeder_tell_progress(tfos_feeder *feeder, bool now)
{
    tfos__message message;
    uint64_t consumed = feeder->fed; /* what earlier attempts have fed is consumed, or will be */
    int64_t clock_ms = tfos__clock_ms();
    if (feeder->sink.inference || (!now && clock_ms - feeder->told_ms < PROGRESS_MS)) {
        return;
    }
    feeder->told_ms = clock_ms;
    for (size_t i = 0; i < feeder->place_count; i++) {
        if (feeder->places[i].lane != NULL) {
            tfos__lane_counts counts;
            tfos__lane_count(feeder->places[i].lane, &counts);
            consumed += counts.consumed_rows;
        }
    }
    uint64_t sent = feeder->fed + feeder->sent;
    if (sent == feeder->told_sent && consumed == feeder->told_consumed) {
        return;
    }
    feeder->told_sent = sent;
    feeder->told_consumed = consumed;
    tfos__message_init(&message, TFOS__MESSAGE_FED);
    tfos__message_put_number(&message, TFOS__FIELD_FED, sent);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, consumed);
    (void)tfos__dial_send(feeder->coordinator, &message, NULL);
}

tfos_status tfos__feeder_look_around(tfos_feeder *feeder, tfos_error *error)
{
    if (feeder->ended) {
        return tell_end(feeder, error);
    }
    if (feeder->sink.patience.interrupted != NULL && feeder->sink.patience.interrupted(feeder->sink.patience.context)) {
        return tfos__fail(error, TFOS_CANCELLED, "the task was interrupted while it was feeding");
    }
    TFOS_TRY(hear_coordinator(feeder, 0, error));
    tfos__feeder_tell_progress(feeder, false);
    for (size_t i = 0; i < feeder->place_count; i++) {
        tfos__place *place = &feeder->places[i];
        tfos_status status = place->socket >= 0 ? tfos__place_hear(feeder, place, error) : TFOS_OK;
        TFOS_TRY(status == TFOS_IO ? lose_place(feeder, place, error) : status);
    }
    return TFOS_OK;
}

/* A program elsewhere has ended, in good order or not, while rows were on their way: they are in nobody's lane, and
 * nobody would settle them. The rest of the partition is for another attempt, which goes on behind the last row that
 * was acknowledged. Where results are waited for, they are missed anyway. */
static tfos_status check_under_way(tfos_feeder *feeder, tfos_error *error)
{
    for (size_t i = 0; !feeder->sink.inference && i < feeder->place_count; i++) {
        tfos__place *place = &feeder->places[i];
        if (!place->far) {
            continue; /* what is in a lane of shared memory is where it belongs */
        }
        tfos__place_look(place);
        if (place->finished && place->lane != NULL && tfos__lane_used(place->lane) > 0) {
            TFOS_TRY(tfos__feeder_await_word(feeder, ENDING_MS, error));
            return tfos__fail(error, TFOS_IO,
                              "the program of node %u on %s has ended while rows were on their way to it; another "
                              "attempt at partition %" PRIu64 " gives them to others",
                              place->index, place->host, feeder->attempt.partition);
        }
    }
    return TFOS_OK;
}

/* ---- entries ---- */

static tfos_status put_schema(tfos_feeder *feeder, tfos__place *place, tfos_error *error)
{
    uint8_t *to;
    TFOS_TRY(tfos__lane_reserve(place->lane, feeder->schema.size, &to, error));
    memcpy(to, feeder->schema.data, feeder->schema.size);
    TFOS_TRY(tfos__lane_commit(place->lane, feeder->schema.size, 0, place->end_row, error));
    place->schema_number = feeder->schema_number;
    return TFOS_OK;
}

static tfos_status put_gap(tfos__place *place, size_t bytes, tfos_error *error)
{
    uint8_t *to;
    TFOS_TRY(tfos__lane_reserve(place->lane, bytes, &to, error));
    tfos__entry_write_gap(bytes, to);
    return tfos__lane_commit(place->lane, bytes, 0, place->end_row, error);
}

/* Puts rows into the lane of a place; as many as fit and are good for one entry. */
static tfos_status put_rows(tfos_feeder *feeder, const tfos__choice *chosen, const tfos_batch *batch, int64_t first,
                            int64_t *out, tfos_error *error)
{
    tfos__place *place = chosen->place;
    int64_t count = tfos_batch_rows(batch) - first;
    uint8_t *to;
    if (place->schema_number != feeder->schema_number) {
        TFOS_TRY(put_schema(feeder, place, error));
    }
    size_t gap;
    size_t row = tfos__entry_batch_bytes(batch, first, 1);
    size_t limit = tfos__feeder_room(feeder, place, row, &gap);
    if (limit < row) {
        tfos__place_ring(place); /* the schema may have been put */
        return TFOS_END;
    }
    if (gap > 0) {
        TFOS_TRY(put_gap(place, gap, error));
    }
    if ((int64_t)limit > feeder->batch_bytes) {
        limit = (size_t)feeder->batch_bytes;
    }
    if (chosen->here > 1) {
        count = tfos__min_i64(count, tfos__feeder_share(feeder, batch, chosen));
    }
    int64_t rows = tfos__max_i64(1, tfos__entry_rows_within(batch, first, count, limit));
    size_t bytes = tfos__entry_batch_bytes(batch, first, rows);
    TFOS_TRY(tfos__lane_reserve(place->lane, bytes, &to, error));
    tfos__entry_write_batch(batch, first, rows, feeder->row, to);
    uint64_t end_row = feeder->row + (uint64_t)rows;
    TFOS_TRY(tfos__lane_commit(place->lane, bytes, (uint64_t)rows, end_row, error));
    tfos__bell_give(place->bell, (uint64_t)rows);
    tfos__place_ring(place);
    place->end_row = end_row;
    feeder->sent += (uint64_t)rows;
    *out = rows;
    return place->results != NULL ? tfos__feeder_expect(feeder, place, (uint64_t)rows, error) : TFOS_OK;
}

/* A lane that takes nothing more means that its consumer wants no more, or that we were fenced: the coordinator knows.
 */
static tfos_status explain_refusal(tfos_feeder *feeder, tfos_status status, tfos_error *error)
{
    if (status != TFOS_CANCELLED) {
        return status;
    }
    tfos_error mine;
    tfos_status told = tfos__feeder_await_word(feeder, TFOS__FEEDER_GOING_MS, &mine);
    if (told == TFOS_OK) {
        return status;
    }
    if (told != TFOS_END && error != NULL) {
        *error = mine;
    }
    return told;
}

/* Nobody has room at the moment: is there hope? END: yes. */
static tfos_status look_for_hope(const tfos_feeder *feeder, tfos_error *error)
{
    size_t left = 0;
    for (size_t i = 0; i < feeder->place_count; i++) {
        const tfos__place *place = &feeder->places[i];
        left += place->socket >= 0 && !place->finished ? 1 : 0;
        if (place->fenced) {
            return tfos__fail(error, TFOS_CANCELLED, "another attempt has taken over partition %" PRIu64,
                              feeder->attempt.partition);
        }
    }
    return left > 0
               ? TFOS_END
               : tfos__fail(error, TFOS_CANCELLED, "every program on this machine has ended or takes no more rows");
}

/* Feeds some rows from `first` on; waits for room. */
static tfos_status feed_some(tfos_feeder *feeder, const tfos_batch *batch, int64_t first, int64_t *out,
                             tfos_error *error)
{
    size_t row = tfos__entry_batch_bytes(batch, first, 1);
    for (;;) {
        if ((int64_t)row > tfos__feeder_least_lane(feeder)) {
            return tfos__sink_refuse_row(&feeder->sink, batch, first, feeder->row, row, error);
        }
        tfos__choice chosen;
        uint32_t seen = tfos__bell_read(feeder->bell);
        TFOS_TRY(tfos__feeder_look_around(feeder, error));
        TFOS_TRY(check_under_way(feeder, error));
        tfos__feeder_look_for_starving(feeder);
        TFOS_TRY(tfos__feeder_choose(feeder, row, &chosen, error));
        if (chosen.place != NULL) {
            tfos_status status = put_rows(feeder, &chosen, batch, first, out, error);
            if (status == TFOS_CANCELLED) {
                continue; /* the lane was closed a moment ago: look again */
            }
            if (status != TFOS_END) {
                return status;
            }
        }
        tfos_status status = look_for_hope(feeder, error);
        if (status != TFOS_END) {
            return explain_refusal(feeder, status, error);
        }
        (void)tfos__feeder_drain(feeder, NULL); /* what is wrong is said when they are asked for */
        tfos__bell_wait(feeder->bell, seen, WAIT_MS);
    }
}

/* The schema of the first rows, for programs that get none. */
static tfos_status tell_schema(tfos_feeder *feeder, const tfos_schema *schema, tfos_error *error)
{
    char *text;
    tfos__message message;
    TFOS_TRY(tfos_schema_to_json(schema, &text, error));
    tfos_status status = TFOS_OK;
    if (strlen(text) <= 1 << 20) {
        feeder->schema_told = true;
        tfos__message_init(&message, TFOS__MESSAGE_SCHEMA);
        tfos__message_put_string(&message, TFOS__FIELD_SCHEMA, text);
        status = tfos__dial_send(feeder->coordinator, &message, error);
    }
    tfos_string_free(text);
    return status;
}

/* Tells everybody once that the rows have another schema from now on. */
static tfos_status set_schema(tfos_feeder *feeder, const tfos_schema *schema, tfos_error *error)
{
    if (feeder->schema_now != NULL && tfos_schema_equal(feeder->schema_now, schema)) {
        return TFOS_OK;
    }
    tfos_schema_free(feeder->schema_now);
    feeder->schema_now = tfos__schema_retain(schema);
    feeder->schema.size = 0;
    TFOS_TRY(tfos__entry_append_schema(schema, &feeder->schema, error));
    feeder->schema_number++;
    return feeder->schema_told ? TFOS_OK : tell_schema(feeder, schema, error);
}

tfos_status tfos_feeder_put_batch(tfos_feeder *feeder, const tfos_batch *batch, tfos_error *error)
{
    int64_t rows = tfos_batch_rows(batch);
    int64_t first = 0;
    if (feeder->ended) {
        return tell_end(feeder, error);
    }
    TFOS_TRY(set_schema(feeder, tfos_batch_schema(batch), error));
    while (first < rows) {
        int64_t done = 0;
        if (feeder->row < feeder->fed) {
            done = tfos__min_i64(rows - first, (int64_t)(feeder->fed - feeder->row));
        } else {
            TFOS_TRY(feed_some(feeder, batch, first, &done, error));
        }
        feeder->row += (uint64_t)done;
        first += done;
    }
    return TFOS_OK;
}

/* ---- the end ---- */

/* All places, in whichever order they have room: a program may wait for another one before it takes more. */
static tfos_status end_places(tfos_feeder *feeder, tfos_error *error)
{
    for (;;) {
        bool ended = true;
        uint32_t seen = tfos__bell_read(feeder->bell);
        for (size_t i = 0; i < feeder->place_count; i++) {
            tfos__place *place = &feeder->places[i];
            tfos_status status = place->lane != NULL && !place->ended ? tfos__place_end(feeder, place, error) : TFOS_OK;
            ended = ended && status != TFOS_END;
            TFOS_TRY(status == TFOS_END ? TFOS_OK : status);
        }
        if (ended) {
            return TFOS_OK;
        }
        (void)tfos__feeder_drain(feeder, NULL);
        TFOS_TRY(tfos__feeder_look_around(feeder, error));
        tfos__bell_wait(feeder->bell, seen, WAIT_MS);
    }
}

/* The last row is not in a lane before the node elsewhere says so. */
static tfos_status await_acknowledgement(tfos_feeder *feeder, tfos_error *error)
{
    for (;;) {
        uint32_t seen = tfos__bell_read(feeder->bell);
        TFOS_TRY(tfos__feeder_look_around(feeder, error));
        TFOS_TRY(check_under_way(feeder, error));
        for (size_t i = 0; i < feeder->place_count; i++) {
            tfos__place_look(&feeder->places[i]);
        }
        if (tfos__feeder_unacknowledged(feeder) == NULL) {
            return TFOS_OK;
        }
        (void)tfos__feeder_drain(feeder, NULL);
        tfos__bell_wait(feeder->bell, seen, WAIT_MS);
    }
}

/* Whether the task has what it wants, whatever becomes of the feed. */
static bool has_all_results(const tfos_feeder *feeder)
{
    return feeder->sink.inference && feeder->expected_first == feeder->expected_count;
}

tfos_status tfos_feeder_exhaust(tfos_feeder *feeder, tfos_error *error)
{
    tfos__message message;
    if (feeder->exhausted) {
        return TFOS_OK;
    }
    if (feeder->ended) {
        feeder->exhausted = has_all_results(feeder);
        return feeder->exhausted ? TFOS_OK : tell_end(feeder, error);
    }
    for (size_t i = 0; i < feeder->place_count; i++) {
        tfos__place_look(&feeder->places[i]);
        if (feeder->places[i].fenced) {
            return explain_refusal(feeder, look_for_hope(feeder, error), error);
        }
    }
    TFOS_TRY(end_places(feeder, error));
    TFOS_TRY(await_acknowledgement(feeder, error));
    feeder->exhausted = true;
    tfos__feeder_tell_progress(feeder, true);
    tfos__message_init(&message, TFOS__MESSAGE_EXHAUSTED);
    tfos__message_put_number(&message, TFOS__FIELD_ROWS, feeder->row);
    return tfos__dial_send(feeder->coordinator, &message, error);
}

/* Results have come for all rows. */
static tfos_status say_complete(tfos_feeder *feeder, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_COMPLETE);
    return tfos__dial_send(feeder->coordinator, &message, error);
}

static tfos_status finish(tfos_feeder *feeder, tfos_error *error)
{
    if (feeder->ended) {
        return tell_end(feeder, error);
    }
    if (feeder->row < feeder->fed) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "partition %" PRIu64 " has %" PRIu64 " rows now, but an earlier attempt has fed %" PRIu64
                          " of it: it is not computed in the same way every time. checkpoint() the data before feeding "
                          "it",
                          feeder->attempt.partition, feeder->row, feeder->fed);
    }
    TFOS_TRY(tfos_feeder_exhaust(feeder, error));
    if (feeder->sink.inference) {
        TFOS_TRY(say_complete(feeder, error));
    }
    while (!feeder->acknowledged) {
        TFOS_TRY(hear_coordinator(feeder, -1, error));
    }
    return TFOS_OK;
}

tfos_status tfos_feeder_finish(tfos_feeder *feeder, tfos_error *error)
{
    tfos_status status = finish(feeder, error);
    return status == TFOS_MISMATCH && feeder->ended && feeder->exhausted && has_all_results(feeder) ? TFOS_OK : status;
}

/* What is cancelled has its cause elsewhere. */
void tfos_feeder_give_up(tfos_feeder *feeder, const tfos_error *why)
{
    tfos__message message;
    if (feeder->told || why->status == TFOS_CANCELLED) {
        return;
    }
    feeder->told = true;
    tfos__message_init(&message, TFOS__MESSAGE_GAVE_UP);
    tfos__message_put_error(&message, why);
    (void)tfos__dial_send(feeder->coordinator, &message, NULL); /* whoever cannot be told finds out by itself */
}

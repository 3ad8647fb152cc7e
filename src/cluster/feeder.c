/* A producer: a Spark task that feeds the rows of one partition.
 *
 * It has a connection to the coordinator, whose ledger lets it in and hears how far it came, and one Unix socket to
 * each node on its machine, which hands it a lane when it asks. Rows are committed in their order, to whichever lane,
 * one entry after the other: that is what makes one number say all about what was fed (feed/ledger.h).
 *
 * Who gets an entry: the node that has been hungry for longest; if none is, the one that has the fewest rows waiting.
 * So programs that go in step, and take as many rows as the others, come to the end of the data at about the same time.
 * That needs entries that are a small part of the data, also where there is not much of it; and nobody may be given
 * everything because another program is late: until all that may read do, nobody gets rows who still has some. */
#include "cluster/feeder.h"

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
    SHARE = 4,          /* entries that a batch is cut into for each node, at first … */
    SHARE_BYTES = 4096, /* … unless they would be smaller than this and nobody is hungry … */
    SHARE_SENT = 16,    /* … and then so many parts of what was sent */
    FAR_MOST = 3,       /* nodes elsewhere that a task feeds besides those of its machine */
    ANSWER_MS = 1000,   /* for a node to hand out a lane, or say that it cannot now */
    WINDOW = 4,         /* entries of the largest size that are under way in a lane of shared memory */
    PROGRESS_MS = 500,  /* between two words to the coordinator about how far we are */
    GOING_MS = 10000,   /* from a node that is gone until the coordinator says what that means */
};

int64_t tfos_feeder_fed(const tfos_feeder *feeder)
{
    return (int64_t)feeder->fed;
}

void tfos_feeder_skip(tfos_feeder *feeder, int64_t rows)
{
    feeder->row += (uint64_t)rows;
}

/* ---- what others say ---- */

static void hear_hungry(tfos_feeder *feeder, const tfos__message *message)
{
    uint64_t index = tfos__message_number(message, TFOS__FIELD_INDEX);
    for (size_t i = 0; i < feeder->place_count; i++) {
        if (feeder->places[i].index == index) {
            feeder->places[i].hungry = tfos__message_number(message, TFOS__FIELD_COUNT) != 0;
        }
    }
}

/* A feed that has ended wants no more. But where results are waited for, only a program can say so: they must not be
 * missing without a word. */
static tfos_status tell_end(const tfos_feeder *feeder, tfos_error *error)
{
    if ((feeder->flags & TFOS__FEED_INFERENCE) == 0 || feeder->terminated) {
        return TFOS_END;
    }
    return tfos__fail(error, TFOS_MISMATCH,
                      "every program has ended before all rows of partition %" PRIu64
                      " had their results: a program must take rows until the feed ends, and give one result for each",
                      feeder->id.partition);
}

tfos_status tfos__feeder_fail_as_told(const tfos__message *message, tfos_error *error)
{
    char text[TFOS_ERROR_MESSAGE_BYTES];
    uint64_t status = tfos__message_number(message, TFOS__FIELD_STATUS);
    tfos__message_copy(message, TFOS__FIELD_TEXT, text, sizeof text);
    return tfos__fail(error, status > TFOS_END && status <= TFOS_CANCELLED ? (tfos_status)status : TFOS_CANCELLED, "%s",
                      text);
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
        case TFOS__MESSAGE_STOP:
            feeder->ended = true;
            feeder->terminated = tfos__message_number(&message, TFOS__FIELD_COUNT) != 0;
            return tell_end(feeder, error);
        case TFOS__MESSAGE_ADMITTED: /* we are done; or the feed has failed elsewhere */
            if (tfos__message_number(&message, TFOS__FIELD_ADMISSION) == TFOS__ADMISSION_COMPLETE) {
                feeder->acknowledged = true;
                return TFOS_OK;
            }
            return tfos__feeder_fail_as_told(&message, error);
        case TFOS__MESSAGE_REFUSED:
            return tfos__feeder_fail_as_told(&message, error);
        case TFOS__MESSAGE_COMPLETE:
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

/* A program that has ended, or was told that the feed has, leaves rows behind. */
static void look_whether_finished(tfos__place *place)
{
    tfos__lane_counts counts;
    if (place->lane == NULL || place->finished || place->fenced) {
        return;
    }
    tfos__lane_count(place->lane, &counts);
    place->finished = counts.given_up;
    place->fenced = counts.fed_out && !counts.given_up && !place->ended;
}

/* Waits for the coordinator to say that the feed has ended or failed, whatever else it says before. OK: it did not. */
static tfos_status await_word(tfos_feeder *feeder, tfos_error *error)
{
    for (int64_t deadline = tfos__clock_ms() + GOING_MS; tfos__clock_ms() < deadline;) {
        TFOS_TRY(hear_coordinator(feeder, tfos__max_i64(0, deadline - tfos__clock_ms()), error));
    }
    return TFOS_OK;
}

/* Whether anybody can be fed, or: whether memory is shared with anybody. */
static bool has_places(const tfos_feeder *feeder, bool near)
{
    for (size_t i = 0; i < feeder->place_count; i++) {
        const tfos__place *place = &feeder->places[i];
        if (place->socket >= 0 && !place->finished && (!near || place->stand_in == NULL)) {
            return true;
        }
    }
    return false;
}

/* A node's socket is closed. If its program had ended before, nothing is wrong, or the coordinator will say what is.
 * Else the cluster fails or starts again, and the coordinator knows that, too. What a stand-in has met with on the way,
 * it knows by itself: unless that is a node that is gone, nobody else does. */
static tfos_status lose_place(tfos_feeder *feeder, tfos__place *place, tfos_error *error)
{
    tfos_error why = {.status = TFOS_OK};
    look_whether_finished(place);
    close(place->socket);
    place->socket = -1;
    tfos__stand_in_close(place->stand_in, &why);
    place->stand_in = NULL;
    bool had_lane = place->lane != NULL;
    if (place->finished || !had_lane) {
        place->finished = true;
        if (had_lane || why.status == TFOS_OK || has_places(feeder, false)) {
            return TFOS_OK;
        }
    }
    if (why.status == TFOS_OK || why.status == TFOS_IO) {
        TFOS_TRY(await_word(feeder, error));
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
    if ((feeder->flags & TFOS__FEED_INFERENCE) != 0 || (!now && clock_ms - feeder->told_ms < PROGRESS_MS)) {
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
    tfos__message_init(&message, TFOS__MESSAGE_PROGRESS);
    tfos__message_put_number(&message, TFOS__FIELD_ROWS, sent);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, consumed);
    (void)tfos__dial_send(feeder->coordinator, &message, NULL);
}

tfos_status tfos__feeder_look_around(tfos_feeder *feeder, tfos_error *error)
{
    if (feeder->ended) {
        return tell_end(feeder, error);
    }
    if (feeder->patience.interrupted != NULL && feeder->patience.interrupted(feeder->patience.context)) {
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

/* ---- who gets the next entry ---- */

typedef struct choice {
    tfos__place *place; /* NULL: nobody can take anything now */
    size_t hungry;      /* how many nodes are */
    size_t here;        /* nodes on this machine */
} choice;

/* Whether one who has so many rows waiting has much less than another one. */
static bool has_much_less(uint64_t backlog, uint64_t other)
{
    return other != UINT64_MAX && backlog < other / 2 + other % 2;
}

/* Asks for a lane where somebody is hungry, or has much less than those whose lanes we have; and anywhere if we have
 * none. To have one everywhere would keep out other tasks. */
static tfos_status ask_for_lanes(tfos_feeder *feeder, tfos_error *error)
{
    size_t lanes = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < feeder->place_count; i++) {
        const tfos__place *place = &feeder->places[i];
        if (place->asked && !place->busy && !place->finished) {
            uint64_t backlog = tfos__bell_backlog(place->bell);
            least = backlog < least ? backlog : least;
            lanes++;
        }
    }
    for (size_t i = 0; i < feeder->place_count; i++) {
        tfos__place *place = &feeder->places[(feeder->place_first + i) % feeder->place_count];
        if (place->socket < 0 || place->bell == NULL || place->finished || place->asked) {
            continue;
        }
        bool less = place->stand_in == NULL && has_much_less(tfos__bell_backlog(place->bell), least);
        if (lanes == 0 || less || tfos__bell_hungry(place->bell) != 0) {
            tfos_status status = tfos__place_ask(feeder, place, error);
            TFOS_TRY(status == TFOS_IO ? TFOS_OK : status); /* that it is gone is seen at the next look around */
            lanes += status == TFOS_OK ? 1 : 0;
        }
    }
    return TFOS_OK;
}

/* The node elsewhere that has not acknowledged everything yet; NULL: there is none. Nobody else is fed before it has:
 * what an attempt has committed must be the first rows of its partition. That takes as long as the network does, and
 * never depends on a program: see room_of. */
static const tfos__place *find_unacknowledged(const tfos_feeder *feeder)
{
    for (size_t i = 0; i < feeder->place_count; i++) {
        const tfos__place *place = &feeder->places[i];
        if (place->stand_in != NULL && place->lane != NULL && !place->finished && !place->fenced &&
            tfos__lane_used(place->lane) > 0) {
            return place;
        }
    }
    return NULL;
}

/* Those nearby have enough, and somebody elsewhere has nothing: that one is fed, too. Connecting takes its time, and
 * nobody waits for it. Nor does it matter to this task whether it can be done at all. */
static void look_for_starving(tfos_feeder *feeder)
{
    size_t far = 0;
    tfos__place *starving = NULL;
    for (size_t i = 0; i < feeder->place_count; i++) {
        tfos__place *place = &feeder->places[(feeder->place_first + i) % feeder->place_count];
        far += place->stand_in != NULL ? 1 : 0;
        if (place->bell != NULL && !place->finished && tfos__bell_hungry(place->bell) != 0) {
            return;
        }
        if (place->socket < 0 && !place->finished && !place->tried && place->hungry && place->port != 0) {
            starving = starving == NULL ? place : starving;
        }
    }
    if (starving == NULL || far >= FAR_MOST) {
        return;
    }
    starving->tried = true;
    tfos_error why;
    if (tfos__place_begin_far(feeder, starving, &why) != TFOS_OK) {
        tfos__log(TFOS_LOG_WARN, "node %u on %s has no rows, and this task cannot feed it: %s", starving->index,
                  starving->host, why.message);
        tfos__place_reset(starving);
    }
}

/* Bytes that an entry of `least` bytes or more can have now. What a stand-in reads is sent over the network: there the
 * whole lane may be under way, but never more than the node has room for, so that it acknowledges at once. */
static size_t room_of(const tfos_feeder *feeder, const tfos__place *place, size_t least, size_t *gap)
{
    *gap = 0;
    if (place->stand_in != NULL) {
        return tfos__stand_in_room(place->stand_in, place->lane);
    }
    return tfos__lane_room(place->lane, WINDOW * (size_t)feeder->batch_bytes, least, gap);
}

/* Bytes that a place must have room for before a row of `row_bytes` is put there. */
static size_t need_of(const tfos_feeder *feeder, const tfos__place *place, size_t row_bytes)
{
    size_t need = row_bytes + (place->schema_number != feeder->schema_number ? feeder->schema.size : 0);
    size_t ring = tfos__lane_ring_bytes(place->lane);
    return need < ring ? need : ring; /* where both do not fit at once, the row waits until the schema is read */
}

/* Whether a node will say in a moment if there is a lane for us. */
static bool answer_comes(const tfos__place *place)
{
    return place->asked && place->lane == NULL && !place->busy && tfos__clock_ms() < place->asked_ms + ANSWER_MS;
}

static tfos_status choose(tfos_feeder *feeder, size_t row_bytes, choice *out, tfos_error *error)
{
    uint64_t since = UINT64_MAX;
    uint64_t coming_since = UINT64_MAX; /* of those whose lane is on its way */
    uint64_t least = UINT64_MAX;        /* rows that wait somewhere, … */
    uint64_t coming_least = UINT64_MAX; /* … and where the lane is on its way */
    size_t room = 0;
    *out = (choice){0};
    TFOS_TRY(ask_for_lanes(feeder, error));
    const tfos__place *only = find_unacknowledged(feeder);
    bool near = has_places(feeder, true); /* then those elsewhere are fed only while they starve */
    for (size_t i = 0; i < feeder->place_count; i++) {
        tfos__place *place = &feeder->places[(feeder->place_first + i) % feeder->place_count];
        look_whether_finished(place);
        if (place->socket < 0 || place->bell == NULL || place->finished || place->fenced) {
            continue;
        }
        uint64_t hungry = tfos__bell_hungry(place->bell);
        out->here++;
        out->hungry += hungry != 0 ? 1 : 0;
        uint64_t backlog = tfos__bell_backlog(place->bell);
        if (answer_comes(place)) {
            coming_since = hungry != 0 && hungry < coming_since ? hungry : coming_since;
            coming_least = backlog < coming_least ? backlog : coming_least;
        }
        size_t gap;
        size_t need = place->lane != NULL ? need_of(feeder, place, row_bytes) : 0;
        size_t bytes = place->lane != NULL ? room_of(feeder, place, need, &gap) : 0;
        if (place->lane == NULL || bytes < need) {
            continue;
        }
        if (hungry != 0 && hungry < since && tfos__lane_used(place->lane) == 0) {
            since = hungry;
            out->place = place;
            continue;
        }
        bool better = backlog < least || (backlog == least && bytes > room);
        if (since == UINT64_MAX && (only == NULL || place == only) && better && (backlog == 0 || !feeder->held_back) &&
            (place->stand_in == NULL || !near)) {
            least = backlog;
            room = bytes;
            out->place = place;
        }
    }
    if (only != NULL && out->place != only) {
        out->place = NULL; /* somebody else is hungry: as soon as this one has acknowledged */
    }
    if (coming_since < since || (since == UINT64_MAX && has_much_less(coming_least, least))) {
        out->place = NULL; /* whoever is hungry for longest, or has least, comes first, as soon as it has its lane */
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

/* Rows of a batch that make an entry where several nodes are fed: a small part of it while somebody is hungry, and
 * otherwise of all that was fed so far, so that entries are small where there is little data and large where there is
 * much. */
static int64_t share_of(const tfos_feeder *feeder, const tfos_batch *batch, const choice *chosen)
{
    int64_t rows = tfos_batch_rows(batch);
    int64_t share = tfos__max_i64(1, rows / (int64_t)(SHARE * chosen->here));
    if (chosen->hungry > 0) {
        return share;
    }
    int64_t least = rows * SHARE_BYTES / (int64_t)tfos__entry_batch_bytes(batch, 0, rows);
    return tfos__max_i64(tfos__max_i64(share, least), (int64_t)(feeder->sent / SHARE_SENT));
}

/* Puts rows into the lane of a place; as many as fit and are good for one entry. */
static tfos_status put_rows(tfos_feeder *feeder, const choice *chosen, const tfos_batch *batch, int64_t first,
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
    size_t limit = room_of(feeder, place, row, &gap);
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
        count = tfos__min_i64(count, share_of(feeder, batch, chosen));
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
    tfos_status told = await_word(feeder, &mine);
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
                              feeder->id.partition);
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
            return tfos__feeder_refuse_row(feeder, batch, first, row, error);
        }
        choice chosen;
        uint32_t seen = tfos__bell_read(feeder->bell);
        TFOS_TRY(tfos__feeder_look_around(feeder, error));
        look_for_starving(feeder);
        TFOS_TRY(choose(feeder, row, &chosen, error));
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

/* Tells everybody once that the rows have another schema from now on. */
static tfos_status set_schema(tfos_feeder *feeder, const tfos_schema *schema, tfos_error *error)
{
    char *text;
    tfos__message message;
    if (feeder->schema_now == schema) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos_schema_to_json(schema, &text, error));
    tfos_schema_free(feeder->schema_now);
    feeder->schema_now = tfos__schema_retain(schema);
    if (feeder->schema_text != NULL && strcmp(text, feeder->schema_text) == 0) {
        tfos_string_free(text);
        return TFOS_OK;
    }
    tfos_string_free(feeder->schema_text);
    feeder->schema_text = text;
    feeder->schema.size = 0;
    TFOS_TRY(tfos__entry_append_schema(schema, &feeder->schema, error));
    feeder->schema_number++;
    if (feeder->schema_told || strlen(text) > 1 << 20) {
        return TFOS_OK;
    }
    feeder->schema_told = true;
    tfos__message_init(&message, TFOS__MESSAGE_SCHEMA);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    return tfos__dial_send(feeder->coordinator, &message, error);
}

tfos_status tfos_feeder_batch(tfos_feeder *feeder, const tfos_batch *batch, tfos_error *error)
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
        for (size_t i = 0; i < feeder->place_count; i++) {
            look_whether_finished(&feeder->places[i]);
        }
        if (find_unacknowledged(feeder) == NULL) {
            return TFOS_OK;
        }
        (void)tfos__feeder_drain(feeder, NULL);
        tfos__bell_wait(feeder->bell, seen, WAIT_MS);
    }
}

/* Whether the task has what it wants, whatever becomes of the feed. */
static bool has_all_results(const tfos_feeder *feeder)
{
    return (feeder->flags & TFOS__FEED_INFERENCE) != 0 && feeder->expected_first == feeder->expected_count;
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
        look_whether_finished(&feeder->places[i]);
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
                          feeder->id.partition, feeder->row, feeder->fed);
    }
    TFOS_TRY(tfos_feeder_exhaust(feeder, error));
    if ((feeder->flags & TFOS__FEED_INFERENCE) != 0) {
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

void tfos_feeder_fail(tfos_feeder *feeder, const tfos_error *failure)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_UNFIT);
    tfos__message_put_number(&message, TFOS__FIELD_STATUS, failure->status);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, failure->message);
    (void)tfos__dial_send(feeder->coordinator, &message, NULL); /* whoever cannot be told finds out by itself */
}

/* Who gets the next entry of a producer.
 *
 * The node that has been hungry for longest; if none is, the one that has the fewest rows waiting.
 * So programs that go in step, and take as many rows as the others, come to the end of the data at about the same time.
 * That needs entries that are a small part of the data, also where there is not much of it; and nobody may be given
 * everything because another program is late: until all that may read do, nobody gets rows who still has some. */
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "feed/feeder_state.h"

enum {
    SHARE = 4,          /* entries that a batch is cut into for each node, at first … */
    SHARE_BYTES = 4096, /* … unless they would be smaller than this and nobody is hungry … */
    SHARE_SENT = 16,    /* … and then so many parts of what was sent */
    STARVING_MOST = 32, /* nodes elsewhere that starve and that a task feeds besides others */
    TRY_MS = 5000,      /* between two attempts to reach one of them */
    ANSWER_MS = 1000,   /* for a node to hand out a lane, or say that it cannot now */
    WINDOW = 4,         /* entries of the largest size that are under way in a lane of shared memory */
};

/* A program that has ended, or was told that the feed has, leaves rows behind. */
void tfos__place_look(tfos__place *place)
{
    tfos__lane_counts counts;
    if (place->lane == NULL || place->finished || place->fenced) {
        return;
    }
    tfos__lane_count(place->lane, &counts);
    place->finished = counts.given_up;
    place->fenced = counts.fed_out && !counts.given_up && !place->ended;
}

/* Whether anybody can be fed, or: whether memory is shared with anybody. */
bool tfos__feeder_has_places(const tfos_feeder *feeder, bool near)
{
    for (size_t i = 0; i < feeder->place_count; i++) {
        const tfos__place *place = &feeder->places[i];
        if (place->socket >= 0 && !place->finished && (!near || place->stand_in == NULL)) {
            return true;
        }
    }
    return false;
}

/* Since when a node is hungry; 0: it is not, or, elsewhere, only was: what it says takes its time to come here, and
 * what we have sent since then is what it waits for. */
static uint64_t hungry_since(const tfos__place *place)
{
    bool served = place->stand_in != NULL && tfos__bell_backlog(place->bell) > 0;
    return served ? 0 : tfos__bell_hungry(place->bell);
}

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
        if (lanes == 0 || less || hungry_since(place) != 0) {
            tfos_status status = tfos__place_ask(feeder, place, error);
            TFOS_TRY(status == TFOS_IO ? TFOS_OK : status); /* that it is gone is seen at the next look around */
            lanes += status == TFOS_OK ? 1 : 0;
        }
    }
    return TFOS_OK;
}

/* The node elsewhere that has not acknowledged everything yet; NULL: there is none. Nobody else is fed before it has:
 * what an attempt has committed must be the first rows of its partition. That takes as long as the network does, and
 * never depends on a program: see tfos__feeder_room. */
const tfos__place *tfos__feeder_unacknowledged(const tfos_feeder *feeder)
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
void tfos__feeder_look_for_starving(tfos_feeder *feeder)
{
    size_t far = 0;
    tfos__place *starving = NULL;
    for (size_t i = 0; i < feeder->place_count; i++) {
        tfos__place *place = &feeder->places[(feeder->place_first + i) % feeder->place_count];
        far += place->stand_in != NULL ? 1 : 0;
        if (place->bell != NULL && !place->finished && hungry_since(place) != 0) {
            return;
        }
        bool may_try = place->tried_ms == 0 || tfos__clock_ms() - place->tried_ms > TRY_MS;
        if (place->socket < 0 && !place->finished && place->hungry && place->port != 0 && may_try) {
            starving = starving == NULL ? place : starving;
        }
    }
    if (starving == NULL || far >= STARVING_MOST) {
        return;
    }
    starving->tried_ms = tfos__clock_ms();
    tfos_error why;
    if (tfos__place_begin_far(feeder, starving, &why) != TFOS_OK) {
        tfos__log(TFOS_LOG_WARN, "node %u on %s has no rows, and this task cannot feed it: %s", starving->index,
                  starving->host, why.message);
        tfos__place_reset(starving);
    }
}

/* Bytes that an entry of `least` bytes or more can have now. What a stand-in reads is sent over the network: there the
 * whole lane may be under way, but never more than the node has room for, so that it acknowledges at once. */
size_t tfos__feeder_room(const tfos_feeder *feeder, const tfos__place *place, size_t least, size_t *gap)
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

tfos_status tfos__feeder_choose(tfos_feeder *feeder, size_t row_bytes, tfos__choice *out, tfos_error *error)
{
    uint64_t since = UINT64_MAX;
    uint64_t coming_since = UINT64_MAX; /* of those whose lane is on its way */
    uint64_t least = UINT64_MAX;        /* rows that wait somewhere, … */
    uint64_t coming_least = UINT64_MAX; /* … and where the lane is on its way */
    size_t room = 0;
    *out = (tfos__choice){0};
    TFOS_TRY(ask_for_lanes(feeder, error));
    const tfos__place *only = tfos__feeder_unacknowledged(feeder);
    bool near = tfos__feeder_has_places(feeder, true); /* then those elsewhere are fed only while they starve */
    for (size_t i = 0; i < feeder->place_count; i++) {
        tfos__place *place = &feeder->places[(feeder->place_first + i) % feeder->place_count];
        tfos__place_look(place);
        if (place->socket < 0 || place->bell == NULL || place->finished || place->fenced) {
            continue;
        }
        uint64_t hungry = hungry_since(place);
        out->here++;
        out->hungry += hungry != 0 ? 1 : 0;
        uint64_t backlog = tfos__bell_backlog(place->bell);
        if (answer_comes(place)) {
            coming_since = hungry != 0 && hungry < coming_since ? hungry : coming_since;
            coming_least = backlog < coming_least ? backlog : coming_least;
        }
        size_t gap;
        size_t need = place->lane != NULL ? need_of(feeder, place, row_bytes) : 0;
        size_t bytes = place->lane != NULL ? tfos__feeder_room(feeder, place, need, &gap) : 0;
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

/* Rows of a batch that make an entry where several nodes are fed: a small part of it while somebody is hungry, and
 * otherwise of all that was fed so far, so that entries are small where there is little data and large where there is
 * much. */
int64_t tfos__feeder_share(const tfos_feeder *feeder, const tfos_batch *batch, const tfos__choice *chosen)
{
    int64_t rows = tfos_batch_rows(batch);
    int64_t share = tfos__max_i64(1, rows / (int64_t)(SHARE * chosen->here));
    if (chosen->hungry > 0) {
        return share;
    }
    int64_t least = rows * SHARE_BYTES / (int64_t)tfos__entry_batch_bytes(batch, 0, rows);
    return tfos__max_i64(tfos__max_i64(share, least), (int64_t)(feeder->sent / SHARE_SENT));
}

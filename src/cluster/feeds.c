/* Feeds: what the coordinator does with the ledger's decisions. */
#include "cluster/feeds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

enum {
    FEEDS_MOST = 1 << 20, /* kept for reports; a streaming job makes one for each batch */
    PLACES_BYTES = 1 << 20,
    RATE_MS = 2000, /* over which rows per second are counted */
};

typedef struct feed {
    uint64_t number;
    char queue[64];
    uint64_t flags;
    uint64_t partitions;
    uint64_t timeout_ms;
    uint64_t epoch;
    bool open;
    bool failed;        /* the driver knows */
    bool over;          /* nobody takes its rows any more */
    bool marked;        /* the current epoch */
    uint64_t dropped;   /* rows that were in the lanes of programs that had ended */
    uint64_t consumed;  /* by all nodes, when it last grew … */
    uint64_t moved_ms;  /* … and when that was */
    uint64_t producers; /* that were let in and have not left */
    char *schema;       /* of the first rows; NULL: not known yet */
} feed;

typedef struct feed_node {
    bool known;
    bool gone;
    char name[101];
    char machine[64];
    uint16_t port;
    char queues[256]; /* that its program has opened: ",input,validation," */
    tfos__fed fed;
    uint64_t rate_ms;
    uint64_t rate_rows;
} feed_node;

typedef struct producer {
    uint64_t number;
    uint64_t feed;
    char machine[64];
    tfos__attempt attempt;
    bool granted;
    bool waits;         /* to hear that its partition is complete, until it is known … */
    uint32_t waits_for; /* … how the program of this node ended, … */
    uint64_t dropped;   /* … which left so many rows behind */
} producer;

struct tfos__feeds {
    tfos__roster *roster;
    tfos__feeds_calls calls;
    tfos__ledger *ledger;
    feed *feeds;
    size_t feed_count;
    size_t feed_capacity;
    producer *producers;
    size_t producer_count;
    size_t producer_capacity;
    uint32_t node_count;
    feed_node *nodes;
    uint32_t *alive; /* scratch */
    bool ended;      /* END_OF_FEED was said */
    bool stopped;    /* the cluster is ending */
    uint64_t now_ms;
};

static feed *find_feed(const tfos__feeds *feeds, uint64_t number)
{
    for (size_t i = feeds->feed_count; i-- > 0;) {
        if (feeds->feeds[i].number == number) {
            return &feeds->feeds[i];
        }
    }
    return NULL;
}

static producer *find_producer(const tfos__feeds *feeds, uint64_t number)
{
    for (size_t i = feeds->producer_count; i-- > 0;) {
        if (feeds->producers[i].number == number) {
            return &feeds->producers[i];
        }
    }
    return NULL;
}

/* Results belong to the task that fed the rows, and Spark may compute them as often as it likes: an attempt of
 * inference has nothing to do with others, and nothing with the ledger. */
static bool is_inference(const feed *which)
{
    return (which->flags & TFOS__FEED_INFERENCE) != 0;
}

/* ---- what is said ---- */

static void tell_driver(tfos__feeds *feeds, const feed *which, const char *state, const tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED);
    tfos__message_put_number(&message, TFOS__FIELD_COUNT, which->number);
    tfos__message_put_number(&message, TFOS__FIELD_NODES, which->epoch);
    tfos__message_put_string(&message, TFOS__FIELD_NODE, state);
    if (error != NULL) {
        tfos__message_put_number(&message, TFOS__FIELD_STATUS, error->status);
        tfos__message_put_string(&message, TFOS__FIELD_TEXT, error->message);
    }
    feeds->calls.to_driver(feeds->calls.context, &message);
}

static void fail_feed(tfos__feeds *feeds, feed *which, const tfos_error *error)
{
    if (!which->failed) {
        which->failed = true;
        tell_driver(feeds, which, "failed", error);
    }
}

static void tell_nodes(tfos__feeds *feeds, const tfos__message *message)
{
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        if (feeds->nodes[i].known && !feeds->nodes[i].gone) {
            feeds->calls.to_node(feeds->calls.context, i, message);
        }
    }
}

static void put_attempt(tfos__message *message, const tfos__attempt *attempt)
{
    tfos__message_put_number(message, TFOS__FIELD_FEED, attempt->feed);
    tfos__message_put_number(message, TFOS__FIELD_EPOCH, attempt->epoch);
    tfos__message_put_number(message, TFOS__FIELD_PARTITION, attempt->partition);
    tfos__message_put_number(message, TFOS__FIELD_TASK_ATTEMPT, attempt->attempt);
}

static tfos__attempt attempt_of(const tfos__message *message)
{
    return (tfos__attempt){.feed = tfos__message_number(message, TFOS__FIELD_FEED),
                           .epoch = tfos__message_number(message, TFOS__FIELD_EPOCH),
                           .partition = tfos__message_number(message, TFOS__FIELD_PARTITION),
                           .attempt = tfos__message_number(message, TFOS__FIELD_TASK_ATTEMPT)};
}

/* ---- what the ledger wants ---- */

/* The nodes that a producer may feed: those of its machine first. */
static void list_places(const tfos__feeds *feeds, const producer *who, tfos__buffer *out)
{
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < feeds->node_count && out->size < PLACES_BYTES - 1024; i++) {
            const feed_node *node = &feeds->nodes[i];
            tfos__node_view view;
            bool near = strcmp(node->machine, who->machine) == 0;
            if (!node->known || node->gone || near != (pass == 0)) {
                continue;
            }
            tfos__roster_view(feeds->roster, i, &view);
            if (tfos__buffer_printf(out, NULL, "%" PRIu32 "\t%s\t%s\t%u\t%d\n", i, view.host, node->name, node->port,
                                    node->fed.hungry ? 1 : 0) != TFOS_OK) {
                return;
            }
        }
    }
}

static void on_answer(void *context, uint64_t number, tfos__admission admission, uint64_t fed, const tfos_error *error)
{
    tfos__feeds *feeds = context;
    producer *who = find_producer(feeds, number);
    feed *which = who != NULL ? find_feed(feeds, who->feed) : NULL;
    tfos__buffer places = {0};
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ADMITTED);
    tfos__message_put_number(&message, TFOS__FIELD_ADMISSION, admission);
    if (admission == TFOS__ADMISSION_GRANTED && which != NULL) {
        who->granted = true;
        which->producers++;
        list_places(feeds, who, &places);
        tfos__message_put_number(&message, TFOS__FIELD_ROWS, fed);
        tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS, which->flags);
        tfos__message_put_string(&message, TFOS__FIELD_QUEUE, which->queue);
        tfos__message_put_text(&message, TFOS__FIELD_PLACES, places.size > 0 ? (const char *)places.data : "",
                               places.size);
    }
    if (error != NULL) {
        tfos__message_put_number(&message, TFOS__FIELD_STATUS, error->status);
        tfos__message_put_string(&message, TFOS__FIELD_TEXT, error->message);
        if (which != NULL) {
            fail_feed(feeds, which, error);
        }
    }
    feeds->calls.to_producer(feeds->calls.context, number, &message);
    tfos__buffer_reset(&places);
}

static void on_fence(void *context, const tfos__attempt *attempt)
{
    tfos__feeds *feeds = context;
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FENCE);
    put_attempt(&message, attempt);
    tell_nodes(feeds, &message);
}

static void make_mark(const feed *which, tfos__message *out)
{
    tfos__message_init(out, TFOS__MESSAGE_MARK);
    tfos__message_put_number(out, TFOS__FIELD_FEED, which->number);
    tfos__message_put_number(out, TFOS__FIELD_EPOCH, which->epoch);
    tfos__message_put_string(out, TFOS__FIELD_QUEUE, which->queue);
}

static void on_mark(void *context, uint64_t number, uint64_t epoch)
{
    tfos__feeds *feeds = context;
    feed *which = find_feed(feeds, number);
    tfos__message message;
    if (which != NULL && which->epoch == epoch && !is_inference(which)) {
        which->marked = true;
        make_mark(which, &message);
        tell_nodes(feeds, &message);
    }
}

static void on_stop(void *context, uint64_t number)
{
    tfos__feeds *feeds = context;
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_STOP);
    feeds->calls.to_producer(feeds->calls.context, number, &message);
}

static void stop_inference(tfos__feeds *feeds, feed *which)
{
    which->over = true;
    for (size_t i = 0; is_inference(which) && i < feeds->producer_count; i++) {
        if (feeds->producers[i].feed == which->number) {
            on_stop(feeds, feeds->producers[i].number);
        }
    }
}

/* ---- making one ---- */

tfos_status tfos__feeds_new(tfos__roster *roster, const tfos__feeds_calls *calls, tfos__feeds **out, tfos_error *error)
{
    tfos__feeds *feeds = calloc(1, sizeof *feeds);
    if (feeds == NULL) {
        return tfos__fail_memory(error, sizeof *feeds);
    }
    const tfos__ledger_calls ledger_calls = {
        .answer = on_answer, .fence = on_fence, .mark = on_mark, .stop = on_stop, .context = feeds};
    feeds->roster = roster;
    feeds->calls = *calls;
    feeds->node_count = tfos__roster_options_of(roster)->roles.nodes;
    feeds->nodes = calloc(feeds->node_count, sizeof *feeds->nodes);
    feeds->alive = calloc(feeds->node_count, sizeof *feeds->alive);
    tfos_status status = feeds->nodes != NULL && feeds->alive != NULL
                             ? tfos__ledger_new(&ledger_calls, &feeds->ledger, error)
                             : tfos__fail_memory(error, feeds->node_count * sizeof *feeds->nodes);
    if (status != TFOS_OK) {
        tfos__feeds_free(feeds);
        return status;
    }
    *out = feeds;
    return TFOS_OK;
}

void tfos__feeds_free(tfos__feeds *feeds)
{
    if (feeds != NULL) {
        for (size_t i = 0; i < feeds->feed_count; i++) {
            free(feeds->feeds[i].schema);
        }
        tfos__ledger_free(feeds->ledger);
        free(feeds->feeds);
        free(feeds->producers);
        free(feeds->nodes);
        free(feeds->alive);
        free(feeds);
    }
}

/* ---- the driver ---- */

static tfos_status open_feed(tfos__feeds *feeds, const tfos__message *message, tfos_error *error)
{
    uint64_t flags = tfos__message_number(message, TFOS__FIELD_FEED_FLAGS);
    feed opened = {.number = tfos__message_number(message, TFOS__FIELD_FEED),
                   .flags = flags,
                   .partitions = tfos__message_number(message, TFOS__FIELD_PARTITIONS),
                   .timeout_ms = tfos__message_number(message, TFOS__FIELD_TIMEOUT_MS),
                   .open = true,
                   .moved_ms = feeds->now_ms};
    const tfos__ledger_feed ledger_feed = {.feed = opened.number,
                                           .partitions = opened.partitions,
                                           .determinate = (flags & TFOS__FEED_DETERMINATE) != 0,
                                           .again = (flags & TFOS__FEED_AGAIN) != 0};
    tfos__message_copy(message, TFOS__FIELD_QUEUE, opened.queue, sizeof opened.queue);
    if (feeds->feed_count >= FEEDS_MOST) {
        return tfos__fail(error, TFOS_LIMIT, "a cluster has at most %d feeds", FEEDS_MOST);
    }
    TFOS_TRY(tfos__array_reserve(&feeds->feeds, feeds->feed_count, &feeds->feed_capacity, sizeof *feeds->feeds, error));
    TFOS_TRY(tfos__ledger_open(feeds->ledger, &ledger_feed, error));
    feeds->feeds[feeds->feed_count++] = opened;
    return TFOS_OK;
}

static void begin_epoch(tfos__feeds *feeds, feed *which, const tfos__message *message)
{
    tfos_error error;
    tfos__message begin;
    which->epoch = tfos__message_number(message, TFOS__FIELD_EPOCH);
    which->marked = false;
    which->moved_ms = feeds->now_ms;
    tfos__message_init(&begin, TFOS__MESSAGE_EPOCH);
    tfos__message_put_number(&begin, TFOS__FIELD_FEED, which->number);
    tfos__message_put_number(&begin, TFOS__FIELD_EPOCH, which->epoch);
    tell_nodes(feeds, &begin);
    if (tfos__ledger_begin(feeds->ledger, which->number, which->epoch, &error) != TFOS_OK) {
        which->failed = true;
        tell_driver(feeds, which, "failed", &error);
    } else {
        tell_driver(feeds, which, "epoch", NULL);
    }
}

static void close_feed(tfos__feeds *feeds, feed *which)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED_CLOSE);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, which->number);
    which->open = false;
    tell_nodes(feeds, &message);
    tfos__ledger_close(feeds->ledger, which->number);
}

void tfos__feeds_obey(tfos__feeds *feeds, const tfos__message *message, uint64_t now_ms)
{
    tfos_error error;
    feed *which = find_feed(feeds, tfos__message_number(message, TFOS__FIELD_FEED));
    feeds->now_ms = now_ms;
    if (message->type == TFOS__MESSAGE_FEED) {
        if (open_feed(feeds, message, &error) != TFOS_OK) {
            const feed refused = {.number = tfos__message_number(message, TFOS__FIELD_FEED)};
            tell_driver(feeds, &refused, "failed", &error);
            return;
        }
        which = find_feed(feeds, tfos__message_number(message, TFOS__FIELD_FEED));
        tell_driver(feeds, which, "open", NULL);
        if (feeds->stopped) {
            tfos__ledger_end(feeds->ledger, which->number);
        }
    } else if (message->type == TFOS__MESSAGE_EPOCH && which != NULL) {
        begin_epoch(feeds, which, message);
    } else if (message->type == TFOS__MESSAGE_FEED_CLOSE && which != NULL) {
        close_feed(feeds, which);
    } else if (message->type == TFOS__MESSAGE_END_OF_FEED) {
        feeds->ended = true;
        tell_nodes(feeds, message);
    }
}

/* ---- producers ---- */

static void admit(tfos__feeds *feeds, uint64_t number, const tfos__message *message)
{
    tfos_error error;
    producer asking = {.number = number, .attempt = attempt_of(message)};
    asking.feed = asking.attempt.feed;
    tfos__message_copy(message, TFOS__FIELD_MACHINE, asking.machine, sizeof asking.machine);
    if (tfos__array_reserve(&feeds->producers, feeds->producer_count, &feeds->producer_capacity,
                            sizeof *feeds->producers, &error) != TFOS_OK) {
        on_answer(feeds, number, TFOS__ADMISSION_FAILED, 0, &error);
        return;
    }
    feeds->producers[feeds->producer_count++] = asking;
    const feed *which = find_feed(feeds, asking.feed);
    if (which != NULL && is_inference(which)) {
        on_answer(feeds, number, which->over || feeds->stopped ? TFOS__ADMISSION_ENDED : TFOS__ADMISSION_GRANTED, 0,
                  NULL);
    } else {
        tfos__ledger_admit(feeds->ledger, number, &asking.attempt);
    }
}

static void take_schema(tfos__feeds *feeds, feed *which, const tfos__message *message)
{
    tfos__message schema;
    if (which->schema != NULL || (which->schema = tfos__message_duplicate(message, TFOS__FIELD_TEXT)) == NULL) {
        return;
    }
    tfos__message_init(&schema, TFOS__MESSAGE_SCHEMA);
    tfos__message_put_number(&schema, TFOS__FIELD_FEED, which->number);
    tfos__message_put_string(&schema, TFOS__FIELD_QUEUE, which->queue);
    tfos__message_put_string(&schema, TFOS__FIELD_TEXT, which->schema);
    tell_nodes(feeds, &schema);
}

static void take_unfit(tfos__feeds *feeds, feed *which, uint64_t number, const tfos__message *message)
{
    tfos_error error = {.status = (tfos_status)tfos__message_number(message, TFOS__FIELD_STATUS)};
    tfos__message_copy(message, TFOS__FIELD_TEXT, error.message, sizeof error.message);
    tfos__ledger_fail(feeds->ledger, number, &error);
    fail_feed(feeds, which, &error);
}

/* Rows that a program has left behind because it had finished are dropped; if it was killed, the cluster fails, and
 * the producer must not think that all is well. The node's last word tells, and comes later than the end of its lanes.
 */
static void complete(tfos__feeds *feeds, producer *who, feed *which)
{
    tfos__message answer;
    bool decided = who->dropped == 0 || (who->waits_for < feeds->node_count && feeds->nodes[who->waits_for].gone &&
                                         tfos__roster_phase(feeds->roster) < TFOS__PHASE_STOPPING);
    if (!who->waits || !decided) {
        return;
    }
    who->waits = false;
    which->dropped += who->dropped;
    which->moved_ms = feeds->now_ms;
    tfos__ledger_complete(feeds->ledger, who->number);
    tfos__message_init(&answer, TFOS__MESSAGE_COMPLETE);
    feeds->calls.to_producer(feeds->calls.context, who->number, &answer);
}

void tfos__feeds_hear_producer(tfos__feeds *feeds, uint64_t number, const tfos__message *message, uint64_t now_ms)
{
    producer *who = find_producer(feeds, number);
    feed *which = who != NULL ? find_feed(feeds, who->feed) : NULL;
    feeds->now_ms = now_ms;
    if (message->type == TFOS__MESSAGE_ADMIT && who == NULL) {
        admit(feeds, number, message);
        return;
    }
    if (which == NULL) {
        return;
    }
    switch (message->type) {
    case TFOS__MESSAGE_EXHAUSTED:
        tfos__ledger_exhaust(feeds->ledger, number, tfos__message_number(message, TFOS__FIELD_ROWS));
        break;
    case TFOS__MESSAGE_COMPLETE:
        who->dropped = tfos__message_number(message, TFOS__FIELD_COUNT);
        who->waits_for = (uint32_t)tfos__message_number(message, TFOS__FIELD_INDEX);
        who->waits = true;
        complete(feeds, who, which);
        break;
    case TFOS__MESSAGE_UNFIT:
        take_unfit(feeds, which, number, message);
        break;
    case TFOS__MESSAGE_SCHEMA:
        take_schema(feeds, which, message);
        break;
    default:
        break;
    }
}

void tfos__feeds_producer_left(tfos__feeds *feeds, uint64_t number)
{
    producer *who = find_producer(feeds, number);
    if (who == NULL) {
        return;
    }
    feed *which = find_feed(feeds, who->feed);
    if (which != NULL && who->granted) {
        which->producers--;
    }
    *who = feeds->producers[--feeds->producer_count];
    size_t count = 0;
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        if (feeds->nodes[i].known && !feeds->nodes[i].gone) {
            feeds->alive[count++] = i;
        }
    }
    tfos__ledger_leave(feeds->ledger, number, feeds->alive, count);
}

/* ---- nodes ---- */

static void count_rows(tfos__feeds *feeds, feed_node *node, const tfos__message *beat)
{
    uint64_t consumed = tfos__message_number(beat, TFOS__FIELD_CONSUMED);
    if (consumed != node->fed.consumed_rows) {
        for (size_t i = 0; i < feeds->feed_count; i++) {
            feeds->feeds[i].moved_ms = feeds->feeds[i].open ? feeds->now_ms : feeds->feeds[i].moved_ms;
        }
    }
    node->fed.fed_rows = tfos__message_number(beat, TFOS__FIELD_ROWS);
    node->fed.consumed_rows = consumed;
    node->fed.lane_bytes = tfos__message_number(beat, TFOS__FIELD_LANE_BYTES);
    tfos__message_copy(beat, TFOS__FIELD_TEXT, node->queues, sizeof node->queues);
    uint64_t elapsed = feeds->now_ms - node->rate_ms;
    if (elapsed >= RATE_MS) {
        node->fed.rows_per_second = (double)(consumed - node->rate_rows) * 1000.0 / (double)elapsed;
        node->rate_ms = feeds->now_ms;
        node->rate_rows = consumed;
    }
}

/* A program wants no more of a queue: its feeds end for all. */
static void terminate(tfos__feeds *feeds, const tfos__message *message)
{
    char queue[64];
    tfos__message_copy(message, TFOS__FIELD_QUEUE, queue, sizeof queue);
    for (size_t i = 0; i < feeds->feed_count; i++) {
        feed *each = &feeds->feeds[i];
        if (each->open && strcmp(each->queue, queue) == 0) {
            tfos__ledger_end(feeds->ledger, each->number);
            stop_inference(feeds, each);
            tell_driver(feeds, each, "terminated", NULL);
        }
    }
}

/* A program has ended: nobody fences or is fed there any more. When it was the last one, nobody is left to feed. */
static void lose_node(tfos__feeds *feeds, uint32_t index)
{
    size_t left = 0;
    if (feeds->nodes[index].gone) {
        return;
    }
    feeds->nodes[index].gone = true;
    tfos__ledger_lose(feeds->ledger, index);
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        left += feeds->nodes[i].known && !feeds->nodes[i].gone ? 1 : 0;
    }
    if (left == 0) {
        tfos__feeds_end(feeds);
    }
}

void tfos__feeds_hear_node(tfos__feeds *feeds, uint32_t index, const tfos__message *message, uint64_t now_ms)
{
    feed_node *node = &feeds->nodes[index];
    tfos__attempt attempt;
    feeds->now_ms = now_ms;
    switch (message->type) {
    case TFOS__MESSAGE_REGISTER:
        tfos__message_copy(message, TFOS__FIELD_FEED_NAME, node->name, sizeof node->name);
        tfos__message_copy(message, TFOS__FIELD_MACHINE, node->machine, sizeof node->machine);
        node->port = (uint16_t)tfos__message_number(message, TFOS__FIELD_FEED_PORT);
        node->known = node->name[0] != '\0';
        node->rate_ms = now_ms;
        break;
    case TFOS__MESSAGE_BEAT:
        count_rows(feeds, node, message);
        break;
    case TFOS__MESSAGE_FENCED:
        attempt = attempt_of(message);
        tfos__ledger_fenced(feeds->ledger, &attempt, index, tfos__message_number(message, TFOS__FIELD_ROWS));
        break;
    case TFOS__MESSAGE_TERMINATE:
        terminate(feeds, message);
        break;
    case TFOS__MESSAGE_HUNGRY:
        node->fed.hungry = tfos__message_number(message, TFOS__FIELD_COUNT) != 0;
        break;
    case TFOS__MESSAGE_ENDED:
        lose_node(feeds, index);
        break;
    default:
        break;
    }
}

void tfos__feeds_node_returned(tfos__feeds *feeds, uint32_t index)
{
    tfos__message message;
    if (!feeds->nodes[index].known || feeds->nodes[index].gone) {
        return;
    }
    for (size_t i = 0; i < feeds->feed_count; i++) {
        if (feeds->feeds[i].open && feeds->feeds[i].marked) {
            make_mark(&feeds->feeds[i], &message);
            feeds->calls.to_node(feeds->calls.context, index, &message);
        }
    }
    if (feeds->ended) {
        tfos__message_init(&message, TFOS__MESSAGE_END_OF_FEED);
        feeds->calls.to_node(feeds->calls.context, index, &message);
    }
}

void tfos__feeds_end(tfos__feeds *feeds)
{
    if (!feeds->stopped) {
        feeds->stopped = true;
        tfos__ledger_end(feeds->ledger, UINT64_MAX);
        for (size_t i = 0; i < feeds->feed_count; i++) {
            if (feeds->feeds[i].open) {
                bool stopping = tfos__roster_phase(feeds->roster) >= TFOS__PHASE_STOPPING;
                stop_inference(feeds, &feeds->feeds[i]);
                tell_driver(feeds, &feeds->feeds[i], stopping ? "ended" : "finished", NULL);
            }
        }
    }
}

/* ---- feeds that do not move ---- */

/* The node that has rows and takes none; false when there is none. */
static bool blame_node(const tfos__feeds *feeds, const feed *which, tfos_error *error)
{
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        const tfos__fed *fed = &feeds->nodes[i].fed;
        tfos__node_view view;
        if (fed->fed_rows <= fed->consumed_rows || feeds->nodes[i].gone) {
            continue;
        }
        tfos__roster_view(feeds->roster, i, &view);
        const char *tail = view.tail != NULL ? view.tail : "";
        size_t skip = strlen(tail) > 500 ? strlen(tail) - 500 : 0;
        tfos__fail(error, TFOS_LIMIT,
                   "no row was consumed for %" PRIu64 " s (feed_timeout): %s:%" PRIu32 " on %s has %" PRIu64
                   " rows waiting and takes none. Does its program still read the feed, and does it call terminate() "
                   "when it wants no more? The last lines of its log:\n%s",
                   which->timeout_ms / 1000, view.role, view.task, view.host, fed->fed_rows - fed->consumed_rows,
                   tail + skip);
        return true;
    }
    return false;
}

/* Whether nobody has opened the queue of a feed. */
static bool nobody_reads(const tfos__feeds *feeds, const feed *which, tfos_error *error)
{
    char name[72];
    snprintf(name, sizeof name, ",%s,", which->queue);
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        if (strstr(feeds->nodes[i].queues, name) != NULL) {
            return false;
        }
    }
    tfos__fail(error, TFOS_LIMIT,
               "no program has opened the queue '%s' for %" PRIu64 " s (feed_timeout), so nobody takes the rows. Does "
               "map_fun make a DataFeed (ctx.get_data_feed()) for this queue, and did it get that far? Its log says",
               which->queue, which->timeout_ms / 1000);
    return true;
}

static void look_at_stalled(tfos__feeds *feeds, feed *which)
{
    tfos_error error;
    if (!blame_node(feeds, which, &error) && !nobody_reads(feeds, which, &error)) {
        which->moved_ms = feeds->now_ms; /* everything that was fed was consumed: it is Spark that takes its time */
        return;
    }
    for (size_t i = 0; i < feeds->producer_count; i++) {
        if (feeds->producers[i].feed == which->number && feeds->producers[i].granted) {
            tfos__ledger_fail(feeds->ledger, feeds->producers[i].number, &error);
            break;
        }
    }
    fail_feed(feeds, which, &error);
}

void tfos__feeds_tick(tfos__feeds *feeds, uint64_t now_ms)
{
    feeds->now_ms = now_ms;
    if (!feeds->stopped && tfos__roster_phase(feeds->roster) >= TFOS__PHASE_STOPPING) {
        tfos__feeds_end(feeds);
    }
    for (size_t i = 0; i < feeds->producer_count; i++) {
        feed *which = find_feed(feeds, feeds->producers[i].feed);
        if (which != NULL) {
            complete(feeds, &feeds->producers[i], which);
        }
    }
    for (size_t i = 0; i < feeds->feed_count; i++) {
        feed *each = &feeds->feeds[i];
        if (each->open && !each->failed && each->producers > 0 && each->timeout_ms > 0 &&
            now_ms - each->moved_ms > each->timeout_ms) {
            look_at_stalled(feeds, each);
        }
    }
}

/* ---- views ---- */

void tfos__feeds_of_node(const tfos__feeds *feeds, uint32_t index, tfos__fed *out)
{
    *out = feeds->nodes[index].fed;
}

bool tfos__feeds_view(const tfos__feeds *feeds, size_t at, tfos__feed_view *out)
{
    if (at >= feeds->feed_count) {
        return false;
    }
    const feed *each = &feeds->feeds[at];
    *out = (tfos__feed_view){.feed = each->number,
                             .queue = each->queue,
                             .inference = (each->flags & TFOS__FEED_INFERENCE) != 0,
                             .open = each->open};
    return tfos__ledger_count(feeds->ledger, each->number, &out->counts);
}

const tfos__ledger *tfos__feeds_ledger(const tfos__feeds *feeds)
{
    return feeds->ledger;
}

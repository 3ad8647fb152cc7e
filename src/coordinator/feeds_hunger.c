/* Who is told that a node starves.
 *
 * Producers on other hosts cannot see for themselves that somebody has nothing to do. But not all of them need to know:
 * a few that have rows to spare are enough, and thousands at once would only stand in each other's way. So a node that
 * begins to starve is told to some, the next such node to the next ones; while it starves, more of them get to know
 * with every tick, in the end all. When it has rows again, those who know are told.
 *
 * What a tick may cost is limited whatever the numbers of nodes and producers are, and so is what one producer knows at
 * a time: it feeds no more than so many nodes elsewhere. News that is so old that it has tried gives way to other
 * news. */
#include <stdlib.h>

#include "coordinator/feeds_state.h"

enum {
    TOLD_MOST = 32,      /* nodes that starve and that a producer knows of */
    TOLD_MS = 5000,      /* until one of them may be replaced by another: it has tried to reach it */
    TOLD_AT_ONCE = 64,   /* producers, when a node begins to starve … */
    TOLD_MORE = 4,       /* … and more of them at a time while it does */
    NEWS_OF_A_TICK = 128 /* producers that are looked at, in all */
};

static const uint64_t NOBODY = UINT64_MAX;

/* A producer knows of a node that starves. */
struct tfos__hunger {
    tfos__known_producer *who; /* NULL: this one is free */
    uint32_t node;
    uint64_t told_ms;
    TAILQ_ENTRY(tfos__hunger) among_told; /* of the node */
};

static uint32_t index_of(const tfos__feeds *feeds, const tfos__fed_node *node)
{
    return (uint32_t)(node - feeds->nodes);
}

static void tell(tfos__feeds *feeds, const tfos__known_producer *who, uint32_t node, bool starves)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_HUNGRY);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, node);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, starves ? 1 : 0);
    feeds->calls.to_producer(feeds->calls.context, who->number, &message);
}

bool tfos__hunger_is_known(const tfos__known_producer *who, uint32_t node)
{
    for (size_t i = 0; who->hunger != NULL && i < TOLD_MOST; i++) {
        if (who->hunger[i].who != NULL && who->hunger[i].node == node) {
            return true;
        }
    }
    return false;
}

static void forget(tfos__feeds *feeds, tfos__hunger *known)
{
    tfos__fed_node *node = &feeds->nodes[known->node];
    TAILQ_REMOVE(&node->told, known, among_told);
    node->told_count--;
    known->who = NULL;
}

/* Room for another one: free, or of the oldest, which is told to be over. NULL: what it knows is too new. */
static tfos__hunger *make_room(tfos__feeds *feeds, tfos__known_producer *who)
{
    tfos__hunger *oldest = NULL;
    if (who->hunger == NULL) {
        who->hunger = calloc(TOLD_MOST, sizeof *who->hunger);
        return who->hunger;
    }
    for (size_t i = 0; i < TOLD_MOST; i++) {
        tfos__hunger *each = &who->hunger[i];
        if (each->who == NULL) {
            return each;
        }
        oldest = oldest == NULL || each->told_ms < oldest->told_ms ? each : oldest;
    }
    if (feeds->now_ms - oldest->told_ms < TOLD_MS) {
        return NULL;
    }
    tell(feeds, who, oldest->node, false);
    forget(feeds, oldest);
    return oldest;
}

/* True if it did not know, and does now. */
static bool note(tfos__feeds *feeds, tfos__fed_node *node, tfos__known_producer *who)
{
    uint32_t index = index_of(feeds, node);
    tfos__hunger *known = tfos__hunger_is_known(who, index) ? NULL : make_room(feeds, who);
    if (known == NULL) {
        return false;
    }
    *known = (tfos__hunger){.who = who, .node = index, .told_ms = feeds->now_ms};
    TAILQ_INSERT_TAIL(&node->told, known, among_told);
    node->told_count++;
    return true;
}

/* Looks at some producers behind the one that was looked at last, going round; at first, behind the one that heard of
 * another node last, so that they are not always the same. True if one of them did not know. */
static bool tell_some(tfos__feeds *feeds, tfos__fed_node *node, size_t most)
{
    bool any = false;
    bool first = node->told_last == NOBODY;
    const tfos__known_producer *last = tfos__feeds_find_producer(feeds, first ? feeds->told_last : node->told_last);
    tfos__known_producer *who = last != NULL && last->granted ? TAILQ_NEXT(last, among_granted) : NULL;
    for (size_t i = 0; i < most && feeds->news_left > 0 && node->told_count < feeds->granted_count; i++) {
        who = who != NULL ? who : TAILQ_FIRST(&feeds->granted);
        if (note(feeds, node, who)) {
            tell(feeds, who, index_of(feeds, node), true);
            any = true;
        }
        feeds->news_left--;
        node->told_last = who->number;
        who = TAILQ_NEXT(who, among_granted);
    }
    if (first && node->told_last != NOBODY) {
        feeds->told_last = node->told_last;
    }
    return any;
}

void tfos__hunger_begin(tfos__feeds *feeds, tfos__fed_node *node)
{
    node->starves = true;
    node->told_last = NOBODY;
    TAILQ_INIT(&node->told);
    TAILQ_INSERT_TAIL(&feeds->starving, node, among_starving);
    feeds->starving_count++;
    (void)tell_some(feeds, node, TOLD_AT_ONCE);
}

void tfos__hunger_end(tfos__feeds *feeds, tfos__fed_node *node)
{
    if (!node->starves) {
        return;
    }
    node->starves = false;
    TAILQ_REMOVE(&feeds->starving, node, among_starving);
    feeds->starving_count--;
    while (node->told_count > 0) {
        tfos__hunger *known = TAILQ_FIRST(&node->told);
        tell(feeds, known->who, known->node, false);
        forget(feeds, known);
    }
}

/* Somebody has heard of it: now it is the others' turn. */
static void put_last(tfos__feeds *feeds, tfos__fed_node *node)
{
    TAILQ_REMOVE(&feeds->starving, node, among_starving);
    TAILQ_INSERT_TAIL(&feeds->starving, node, among_starving);
}

void tfos__hunger_admit(tfos__feeds *feeds, tfos__known_producer *who)
{
    size_t most = feeds->starving_count < TOLD_MOST ? feeds->starving_count : TOLD_MOST;
    for (size_t i = 0; i < most; i++) {
        tfos__fed_node *node = TAILQ_FIRST(&feeds->starving);
        note(feeds, node, who);
        put_last(feeds, node);
    }
}

void tfos__hunger_forget(tfos__feeds *feeds, tfos__known_producer *who)
{
    for (size_t i = 0; who->hunger != NULL && i < TOLD_MOST; i++) {
        if (who->hunger[i].who != NULL) {
            forget(feeds, &who->hunger[i]);
        }
    }
    free(who->hunger);
    who->hunger = NULL;
}

void tfos__hunger_tick(tfos__feeds *feeds)
{
    size_t share = feeds->starving_count > 0 ? NEWS_OF_A_TICK / feeds->starving_count : 0;
    tfos__fed_node *node = TAILQ_FIRST(&feeds->starving);
    feeds->news_left = NEWS_OF_A_TICK;
    for (size_t left = feeds->starving_count; left > 0 && feeds->news_left > 0; left--) {
        tfos__fed_node *next = TAILQ_NEXT(node, among_starving);
        if (node->told_count == feeds->granted_count) {
            feeds->news_left--;
        } else if (tell_some(feeds, node, share > TOLD_MORE ? share : TOLD_MORE)) {
            put_last(feeds, node);
        }
        node = next;
    }
}

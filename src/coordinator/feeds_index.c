/* Who is known to the feeds of a cluster, and how they are found.
 *
 * Thousands of tasks feed at a time, and everything that one of them says must cost the same as if it were alone. So
 * whoever is named by a number is found by it, a feed knows its own producers, and what would have to be counted over
 * all nodes for each of them is counted when a node changes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "coordinator/feeds_state.h"

enum {
    FEEDS_KEPT = 2000,    /* for reports; a streaming job makes one for each batch, for ever */
    FEEDS_MOST = 1 << 20, /* open at a time */
    QUEUES_MOST = 1 << 16,
};

/* ---- feeds ---- */

tfos__known_feed *tfos__feeds_find(const tfos__feeds *feeds, uint64_t number)
{
    return tfos__number_map_get(&feeds->feed_of, number);
}

static void free_feed(tfos__known_feed *feed)
{
    free(feed->schema);
    free(feed->unfit);
    free(feed);
}

tfos_status tfos__feeds_add(tfos__feeds *feeds, const tfos__known_feed *opened, tfos_error *error)
{
    if (feeds->feed_count >= FEEDS_MOST) {
        return tfos__fail(error, TFOS_LIMIT, "a cluster has at most %d feeds", FEEDS_MOST);
    }
    tfos__known_queue *queue = tfos__feeds_queue(feeds, opened->queue);
    if (queue == NULL) {
        return tfos__fail(error, TFOS_LIMIT, "no memory for another queue, or there are %d of them", QUEUES_MOST);
    }
    TFOS_TRY(tfos__array_reserve(&feeds->feeds, feeds->feed_count, &feeds->feed_capacity, sizeof(tfos__known_feed *),
                                 error));
    tfos__known_feed *feed = malloc(sizeof *feed);
    if (feed == NULL) {
        return tfos__fail_memory(error, sizeof *feed);
    }
    *feed = *opened;
    feed->known_queue = queue;
    TAILQ_INIT(&feed->asking);
    tfos_status status = tfos__number_map_put(&feeds->feed_of, feed->number, feed, error);
    if (status != TFOS_OK) {
        free(feed);
        return status;
    }
    feeds->feeds[feeds->feed_count++] = feed;
    TAILQ_INSERT_TAIL(&feeds->open, feed, among_open);
    return TFOS_OK;
}

void tfos__feeds_forget_old(tfos__feeds *feeds)
{
    size_t kept = 0;
    size_t left = feeds->feed_count;
    if (left < FEEDS_KEPT) {
        return;
    }
    for (size_t i = 0; i < feeds->feed_count; i++) {
        tfos__known_feed *each = feeds->feeds[i];
        if (left > FEEDS_KEPT / 2 && !each->open && TAILQ_EMPTY(&each->asking)) {
            tfos__ledger_forget(feeds->ledger, each->number);
            tfos__number_map_remove(&feeds->feed_of, each->number);
            free_feed(each);
            left--;
        } else {
            feeds->feeds[kept++] = each;
        }
    }
    feeds->feed_count = kept;
}

/* ---- producers ---- */

tfos__known_producer *tfos__feeds_find_producer(const tfos__feeds *feeds, uint64_t number)
{
    return tfos__number_map_get(&feeds->producer_of, number);
}

tfos__known_producer *tfos__feeds_add_producer(tfos__feeds *feeds, uint64_t number, const tfos__attempt *attempt,
                                               tfos_error *error)
{
    tfos__known_producer *who = calloc(1, sizeof *who);
    if (who == NULL) {
        tfos__fail_memory(error, sizeof *who);
        return NULL;
    }
    if (tfos__number_map_put(&feeds->producer_of, number, who, error) != TFOS_OK) {
        free(who);
        return NULL;
    }
    who->number = number;
    who->attempt = *attempt;
    who->feed = tfos__feeds_find(feeds, attempt->feed);
    if (who->feed != NULL) {
        TAILQ_INSERT_TAIL(&who->feed->asking, who, among_asking);
    }
    return who;
}

void tfos__feeds_note_granted(tfos__feeds *feeds, tfos__known_producer *who)
{
    if (who->granted) {
        return;
    }
    who->granted = true;
    TAILQ_INSERT_TAIL(&feeds->granted, who, among_granted);
    feeds->granted_count++;
    if (who->feed->producers++ == 0) {
        who->feed->moved_ms = feeds->now_ms; /* before that there was nobody whose rows could be taken */
    }
    who->held_back = !tfos__feeds_is_read_by_all(feeds, who->feed);
    who->feed->held_back += who->held_back ? 1 : 0;
}

void tfos__feeds_remove_producer(tfos__feeds *feeds, tfos__known_producer *who)
{
    tfos__hunger_forget(feeds, who);
    tfos__number_map_remove(&feeds->producer_of, who->number);
    if (who->granted) {
        TAILQ_REMOVE(&feeds->granted, who, among_granted);
        feeds->granted_count--;
        who->feed->producers--;
    }
    if (who->feed != NULL) {
        who->feed->held_back -= who->held_back ? 1 : 0;
        TAILQ_REMOVE(&who->feed->asking, who, among_asking);
    }
    free(who);
}

/* ---- nodes, and the queues that their programs read ---- */

void tfos__feeds_nodes_changed(tfos__feeds *feeds)
{
    feeds->alive_changed = true;
    feeds->places_known = false;
}

const uint32_t *tfos__feeds_alive(tfos__feeds *feeds, size_t *count)
{
    if (feeds->alive_changed) {
        feeds->alive_changed = false;
        feeds->alive_count = 0;
        for (uint32_t i = 0; i < feeds->node_count; i++) {
            if (feeds->nodes[i].known && !feeds->nodes[i].gone) {
                feeds->alive[feeds->alive_count++] = i;
            }
        }
    }
    *count = feeds->alive_count;
    return feeds->alive;
}

bool tfos__feeds_reads(const tfos__fed_node *node, const char *queue)
{
    char name[72];
    snprintf(name, sizeof name, ",%s,", queue);
    return strstr(node->queues, name) != NULL;
}

/* Parameter servers and evaluators read nothing, nor does a chief that has others do the work. */
static bool may_read(const tfos__feeds *feeds, uint32_t index)
{
    const tfos__roster_options *options = tfos__roster_options_of(feeds->roster);
    const tfos__fed_node *node = &feeds->nodes[index];
    uint32_t task;
    const char *role = tfos__roles_at(&options->roles, index, &task);
    bool is_chief = options->roles.master[0] != '\0' && strcmp(role, options->roles.master) == 0;
    return node->known && !node->gone && tfos__roles_is_worker(&options->roles, index) &&
           !(is_chief && (options->flags & TFOS__FLAG_NATIVE_WORKERS) != 0);
}

void tfos__feeds_count_reader(tfos__feeds *feeds, uint32_t index, int sign)
{
    if (!may_read(feeds, index)) {
        return;
    }
    feeds->may_read += (uint32_t)sign;
    for (size_t i = 0; i < feeds->queue_count; i++) {
        if (tfos__feeds_reads(&feeds->nodes[index], feeds->queues[i]->name)) {
            feeds->queues[i]->readers += (uint32_t)sign;
        }
    }
}

bool tfos__feeds_is_read_by_all(const tfos__feeds *feeds, const tfos__known_feed *which)
{
    return tfos__feeds_is_inference(which) || which->known_queue->readers == feeds->may_read;
}

tfos__known_queue *tfos__feeds_queue(tfos__feeds *feeds, const char *name)
{
    for (size_t i = 0; i < feeds->queue_count; i++) {
        if (strcmp(feeds->queues[i]->name, name) == 0) {
            return feeds->queues[i];
        }
    }
    if (feeds->queue_count >= QUEUES_MOST ||
        tfos__array_reserve(&feeds->queues, feeds->queue_count, &feeds->queue_capacity, sizeof(tfos__known_queue *),
                            NULL) != TFOS_OK) {
        return NULL;
    }
    tfos__known_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        return NULL;
    }
    snprintf(queue->name, sizeof queue->name, "%s", name);
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        queue->readers += may_read(feeds, i) && tfos__feeds_reads(&feeds->nodes[i], name) ? 1 : 0;
    }
    feeds->queues[feeds->queue_count++] = queue;
    return queue;
}

/* ---- the end ---- */

void tfos__feeds_free_index(tfos__feeds *feeds)
{
    for (size_t i = 0; i < feeds->producer_of.capacity; i++) {
        tfos__known_producer *who = feeds->producer_of.slot[i].value;
        if (who != NULL) {
            free(who->hunger);
            free(who);
        }
    }
    for (size_t i = 0; i < feeds->feed_count; i++) {
        free_feed(feeds->feeds[i]);
    }
    for (size_t i = 0; i < feeds->queue_count; i++) {
        free(feeds->queues[i]);
    }
    tfos__number_map_reset(&feeds->producer_of);
    tfos__number_map_reset(&feeds->feed_of);
    free(feeds->feeds);
    free(feeds->queues);
    free(feeds->nodes);
    free(feeds->alive);
    free(feeds->by_machine);
    tfos__buffer_reset(&feeds->places);
    tfos__buffer_reset(&feeds->list);
}

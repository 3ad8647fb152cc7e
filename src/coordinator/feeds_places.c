/* The list of nodes that every producer gets when it is let in.
 *
 * It is the same for all but for its order and for who starves, so each node is written once, when nodes have come or
 * gone, and copied from there. A producer needs the whole list: whichever node starves, somebody must be able to feed
 * it, and the producers that are there may be the last. */
#include <stdlib.h>

#include "base/status.h"
#include "coordinator/feeds_state.h"
#include "net/frame.h"

enum { PLACES_BYTES = 1 << 20 };

static tfos_status write_place(const tfos__feeds *feeds, uint32_t index, bool starves, tfos__buffer *out)
{
    const tfos__fed_node *node = &feeds->nodes[index];
    tfos__node_view view;
    tfos__message place;
    tfos__roster_view(feeds->roster, index, &view);
    tfos__message_init(&place, TFOS__MESSAGE_PLACE);
    tfos__message_put_number(&place, TFOS__FIELD_INDEX, index);
    tfos__message_put_string(&place, TFOS__FIELD_HOST, view.host);
    tfos__message_put_string(&place, TFOS__FIELD_FEED_NAME, node->name);
    tfos__message_put_number(&place, TFOS__FIELD_FEED_PORT, node->port);
    tfos__message_put_number(&place, TFOS__FIELD_HUNGRY, starves ? 1 : 0);
    return tfos__frame_append(&place, out, NULL);
}

static int compare(const void *a, const void *b)
{
    const tfos__machine_node *one = a;
    const tfos__machine_node *other = b;
    int order = strcmp(one->machine, other->machine);
    return order != 0 ? order : (one->index > other->index) - (one->index < other->index);
}

/* False when memory is short. */
static bool write_all(tfos__feeds *feeds)
{
    size_t count;
    const uint32_t *alive = tfos__feeds_alive(feeds, &count);
    if (feeds->places_known) {
        return true;
    }
    feeds->places.size = 0;
    if (feeds->by_machine == NULL) {
        feeds->by_machine = calloc(feeds->node_count, sizeof *feeds->by_machine);
    }
    for (size_t i = 0; i < count && feeds->by_machine != NULL; i++) {
        tfos__fed_node *node = &feeds->nodes[alive[i]];
        node->place_at = feeds->places.size;
        if (write_place(feeds, alive[i], false, &feeds->places) != TFOS_OK) {
            return false;
        }
        node->place_bytes = feeds->places.size - node->place_at;
        feeds->by_machine[i] = (tfos__machine_node){.machine = node->machine, .index = alive[i]};
    }
    if (feeds->by_machine != NULL) {
        qsort(feeds->by_machine, count, sizeof *feeds->by_machine, compare);
    }
    feeds->places_known = feeds->by_machine != NULL;
    return feeds->places_known;
}

/* Where the nodes of a machine begin among those by machine. */
static size_t find_machine(const tfos__feeds *feeds, const char *machine)
{
    size_t first = 0;
    size_t end = feeds->alive_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (strcmp(feeds->by_machine[middle].machine, machine) < 0) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

static bool is_near(const tfos__feeds *feeds, size_t at, const char *machine)
{
    return at < feeds->alive_count && strcmp(feeds->by_machine[at].machine, machine) == 0;
}

/* False when there is no room for another. */
static bool add_place(tfos__feeds *feeds, const tfos__known_producer *who, uint32_t index)
{
    const tfos__fed_node *node = &feeds->nodes[index];
    if (feeds->list.size >= PLACES_BYTES - 1024) {
        return false;
    }
    if (node->starves && tfos__hunger_is_known(who, index)) {
        return write_place(feeds, index, true, &feeds->list) == TFOS_OK;
    }
    return tfos__buffer_append(&feeds->list, feeds->places.data + node->place_at, node->place_bytes, NULL) == TFOS_OK;
}

const tfos__buffer *tfos__feeds_list_places(tfos__feeds *feeds, tfos__known_producer *who)
{
    feeds->list.size = 0;
    if (!write_all(feeds)) {
        return &feeds->list;
    }
    tfos__hunger_admit(feeds, who);
    size_t near = find_machine(feeds, who->machine);
    bool fits = true;
    for (size_t at = near; fits && is_near(feeds, at, who->machine); at++) {
        fits = add_place(feeds, who, feeds->by_machine[at].index);
    }
    /* Both are in the order of their numbers, so those that are in the list already come up one after the other. */
    bool has_near = is_near(feeds, near, who->machine);
    for (size_t i = 0; fits && i < feeds->alive_count; i++) {
        if (has_near && feeds->by_machine[near].index == feeds->alive[i]) {
            has_near = is_near(feeds, ++near, who->machine);
        } else {
            fits = add_place(feeds, who, feeds->alive[i]);
        }
    }
    return &feeds->list;
}

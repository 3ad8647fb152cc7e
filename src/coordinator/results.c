/* Results. A piece that is the next one is passed on and acknowledged; any other one was sent twice, after a connection
 * had broken, and its node is told where it stands. */
#include "coordinator/results.h"

#include <stdlib.h>

#include "base/status.h"

enum { ASKED_AT_ONCE = 8 }; /* each answers with a piece */

typedef struct progress {
    uint64_t seen; /* bytes that were passed on */
    bool owed;     /* its last piece was not, for want of room */
} progress;

struct tfos__results {
    tfos__results_calls calls;
    uint32_t nodes;
    uint32_t next; /* who is asked first, so that all have their turn */
    progress node[];
};

tfos_status tfos__results_new(uint32_t nodes, const tfos__results_calls *calls, tfos__results **out, tfos_error *error)
{
    size_t bytes = sizeof(tfos__results) + nodes * sizeof(progress);
    tfos__results *results = calloc(1, bytes);
    if (results == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    results->calls = *calls;
    results->nodes = nodes;
    *out = results;
    return TFOS_OK;
}

void tfos__results_free(tfos__results *results)
{
    free(results);
}

static void tell_seen(tfos__results *results, uint32_t index)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_RESULT_SEEN);
    tfos__message_put_number(&message, TFOS__FIELD_OFFSET, results->node[index].seen);
    results->calls.to_node(results->calls.context, index, &message);
}

void tfos__results_hear(tfos__results *results, uint32_t index, const tfos__message *message)
{
    progress *node = &results->node[index];
    tfos__message onward = *message;
    if (tfos__message_number(message, TFOS__FIELD_OFFSET) == node->seen) {
        node->owed = !results->calls.has_room(results->calls.context);
        if (node->owed) {
            return;
        }
        node->seen += tfos__message_text(message, TFOS__FIELD_PIECE).count;
        tfos__message_put_number(&onward, TFOS__FIELD_INDEX, index);
        results->calls.to_driver(results->calls.context, &onward);
    }
    tell_seen(results, index);
}

void tfos__results_tick(tfos__results *results)
{
    uint32_t asked = 0;
    uint32_t at = results->next;
    if (!results->calls.has_room(results->calls.context)) {
        return;
    }
    for (uint32_t i = 0; i < results->nodes && asked < ASKED_AT_ONCE; i++, at = (at + 1) % results->nodes) {
        if (results->node[at].owed) {
            results->node[at].owed = false;
            asked++;
            tell_seen(results, at);
        }
    }
    results->next = at;
}

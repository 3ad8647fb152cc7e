/* While nodes are missing: what the driver is told, and how long that goes on. */
#include <inttypes.h>
#include <stdio.h>

#include "coordinator/roster_state.h"

void tfos__roster_tell_progress(tfos__roster *roster, uint64_t now_ms)
{
    uint32_t nodes = roster->options.roles.nodes;
    char text[256 + sizeof roster->holders];
    tfos__message message;
    int count = snprintf(text, sizeof text, "%" PRIu32 " of %" PRIu32 " nodes registered", roster->registered, nodes);
    if (roster->registered < nodes && roster->slots >= 0 && roster->slots < (int64_t)nodes) {
        count += snprintf(text + count, sizeof text - (size_t)count,
                          ", waiting for executor slots (Spark has %" PRId64 " of the %" PRIu32 " that are needed)",
                          roster->slots, nodes);
    } else if (roster->registered < nodes) {
        count += snprintf(text + count, sizeof text - (size_t)count, ", waiting for executor slots");
    }
    if (roster->registered < nodes && roster->holders[0] != '\0') {
        snprintf(text + count, sizeof text - (size_t)count,
                 "; another cluster of this application holds some (%s): shut it down first", roster->holders);
    }
    roster->progress_ms = now_ms;
    tfos__message_init(&message, TFOS__MESSAGE_PROGRESS);
    tfos__message_put_number(&message, TFOS__FIELD_NODES_HERE, roster->registered);
    tfos__message_put_number(&message, TFOS__FIELD_NODES, nodes);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    roster->calls.to_driver(roster->calls.context, &message);
}

void tfos__roster_hear_slots(tfos__roster *roster, const tfos__message *message, uint64_t now_ms)
{
    bool known = roster->holders[0] != '\0';
    roster->slots = (int64_t)tfos__message_number(message, TFOS__FIELD_SLOTS);
    tfos__message_copy(message, TFOS__FIELD_HOLDERS, roster->holders, sizeof roster->holders);
    if (!known && roster->holders[0] != '\0' && roster->phase == TFOS__PHASE_WAITING) {
        tfos__roster_tell_progress(roster, now_ms);
    }
}

void tfos__roster_check_waiting(tfos__roster *roster, uint64_t now_ms)
{
    const tfos__roster_options *options = &roster->options;
    bool barrier = (options->flags & TFOS__FLAG_BARRIER) != 0;
    if (now_ms - roster->start_ms >= options->timeout_ms && barrier) {
        uint32_t missing = 0;
        while (missing + 1 < options->roles.nodes && roster->node[missing].state != TFOS__NODE_ABSENT) {
            missing++;
        }
        char text[512 + sizeof roster->holders];
        int count = snprintf(text, sizeof text,
                             "%" PRIu32 " of %" PRIu32 " nodes came within %" PRIu64
                             " s (reservation_timeout). Give Spark more executors or cores (one task slot for each "
                             "node), wait longer, or ask for fewer nodes.",
                             roster->registered, options->roles.nodes, options->timeout_ms / 1000);
        if (roster->slots >= 0) {
            count += snprintf(text + count, sizeof text - (size_t)count, " Spark has %" PRId64 " task slots now.",
                              roster->slots);
        }
        if (roster->holders[0] != '\0') {
            snprintf(text + count, sizeof text - (size_t)count,
                     " Another cluster of this application holds some (%s): shut it down first.", roster->holders);
        }
        tfos__roster_fail(roster, missing, TFOS__OUTCOME_TIMED_OUT, 0, 0, text, "", now_ms);
    } else if (now_ms - roster->progress_ms >= TFOS__PROGRESS_MS) {
        tfos__roster_tell_progress(roster, now_ms);
    }
}

/* Producers, as the coordinator hears them. */
#include <stdlib.h>

#include "base/status.h"
#include "coordinator/feeds_state.h"

/* ---- producers ---- */

/* Whether this is an attempt of inference with which nothing is wrong. The ledger finds the words for others. */
static bool may_infer(const tfos__feeds *feeds, const tfos__attempt *attempt)
{
    const tfos__known_feed *which = tfos__feeds_find(feeds, attempt->feed);
    tfos__ledger_counts counts;
    return which != NULL && tfos__feeds_is_inference(which) && which->open && attempt->epoch == which->epoch &&
           attempt->partition < which->partitions && tfos__ledger_count(feeds->ledger, which->number, &counts) &&
           counts.begun && !counts.failed && !counts.ended;
}

/* Whether rows would get no results because all programs have ended, and none of them has said that it wants no more.
 * To send such an attempt home as if all were well would lose its rows without a word. */
static bool is_abandoned(tfos__feeds *feeds, const tfos__attempt *attempt, tfos_error *error)
{
    const tfos__known_feed *which = tfos__feeds_find(feeds, attempt->feed);
    tfos__ledger_counts counts;
    if (which == NULL || !tfos__feeds_is_inference(which) || which->known_queue->terminated ||
        !tfos__ledger_count(feeds->ledger, which->number, &counts) || counts.failed || !counts.ended) {
        return false;
    }
    if (which->unfit != NULL) {
        tfos__fail(error, TFOS_MISMATCH, "%s", which->unfit);
    } else {
        tfos__fail(error, TFOS_MISMATCH,
                   "the rows of partition %llu get no results: the programs of the cluster have ended",
                   (unsigned long long)attempt->partition);
    }
    return true;
}

static void admit(tfos__feeds *feeds, uint64_t number, const tfos__message *message)
{
    tfos_error error;
    tfos__attempt attempt = tfos__attempt_of(message);
    tfos__known_producer *asking = tfos__feeds_add_producer(feeds, number, &attempt, &error);
    if (asking == NULL) {
        tfos__feeds_answer(feeds, number, TFOS__ADMISSION_FAILED, &error);
        return;
    }
    tfos__message_copy(message, TFOS__FIELD_MACHINE, asking->machine, sizeof asking->machine);
    if (may_infer(feeds, &attempt)) {
        tfos__feeds_answer(feeds, number, TFOS__ADMISSION_GRANTED, NULL);
    } else if (is_abandoned(feeds, &attempt, &error)) {
        tfos__feeds_answer(feeds, number, TFOS__ADMISSION_FAILED, &error);
    } else {
        tfos__ledger_admit(feeds->ledger, number, &attempt);
    }
}

static void take_schema(tfos__feeds *feeds, tfos__known_feed *which, const tfos__message *message)
{
    tfos__message schema;
    if (which->schema != NULL || (which->schema = tfos__message_duplicate(message, TFOS__FIELD_SCHEMA)) == NULL) {
        return;
    }
    tfos__feeds_make_schema(which, &schema);
    tfos__feeds_tell_nodes(feeds, &schema);
}

/* The driver is told, for Spark's own words for it are none that a driver could go by. */
static void give_up(tfos__feeds *feeds, tfos__known_feed *which, uint64_t number, const tfos__message *message)
{
    tfos_error error;
    const tfos__known_producer *who = tfos__feeds_find_producer(feeds, number);
    tfos__ledger_counts counts;
    tfos__message_error(message, &error);
    if (error.fault == TFOS_FAULT_AGAIN) {
        tfos__feeds_tell_epoch(feeds, which, TFOS_FEED_STATE_ABANDONED, who->attempt.epoch, &error);
        return;
    }
    if (tfos__feeds_is_inference(which) && who->granted) {
        which->unfit = which->unfit != NULL ? which->unfit : strdup(error.message);
        tfos__feeds_break(feeds, which, &error);
        return;
    }
    tfos__ledger_fail(feeds->ledger, number, &error);
    if (tfos__ledger_count(feeds->ledger, which->number, &counts) && counts.failed) {
        tfos__feeds_fail(feeds, which, &error);
    }
}

/* Of inference, and none of the ledger's business. */
static void complete(tfos__feeds *feeds, const tfos__known_producer *who, tfos__known_feed *which)
{
    tfos__message answer;
    which->answered++;
    which->moved_ms = feeds->now_ms;
    tfos__message_init(&answer, TFOS__MESSAGE_NOTED);
    feeds->calls.to_producer(feeds->calls.context, who->number, &answer);
}

void tfos__feeds_hear_producer(tfos__feeds *feeds, uint64_t number, const tfos__message *message, uint64_t now_ms)
{
    tfos__known_producer *who = tfos__feeds_find_producer(feeds, number);
    tfos__known_feed *which = who != NULL ? who->feed : NULL;
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
    case TFOS__MESSAGE_FED:
        tfos__ledger_progress(feeds->ledger, number, tfos__message_number(message, TFOS__FIELD_FED),
                              tfos__message_number(message, TFOS__FIELD_CONSUMED));
        break;
    case TFOS__MESSAGE_COMPLETE:
        complete(feeds, who, which);
        break;
    case TFOS__MESSAGE_GAVE_UP:
        give_up(feeds, which, number, message);
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
    tfos__known_producer *who = tfos__feeds_find_producer(feeds, number);
    if (who == NULL) {
        return;
    }
    size_t count;
    const uint32_t *alive = tfos__feeds_alive(feeds, &count);
    tfos__feeds_remove_producer(feeds, who);
    tfos__ledger_leave(feeds->ledger, number, alive, count);
}

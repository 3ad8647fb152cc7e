/* The four fields of TFOS__ATTEMPT_FIELDS, to and fro. */
#include "net/attempt.h"

bool tfos__attempt_equal(const tfos__attempt *a, const tfos__attempt *b)
{
    return a->feed == b->feed && a->epoch == b->epoch && a->partition == b->partition && a->task == b->task;
}

void tfos__attempt_put(const tfos__attempt *attempt, tfos__message *message)
{
    tfos__message_put_number(message, TFOS__FIELD_FEED, attempt->feed);
    tfos__message_put_number(message, TFOS__FIELD_EPOCH, attempt->epoch);
    tfos__message_put_number(message, TFOS__FIELD_PARTITION, attempt->partition);
    tfos__message_put_number(message, TFOS__FIELD_TASK_ATTEMPT, attempt->task);
}

tfos__attempt tfos__attempt_of(const tfos__message *message)
{
    return (tfos__attempt){.feed = tfos__message_number(message, TFOS__FIELD_FEED),
                           .epoch = tfos__message_number(message, TFOS__FIELD_EPOCH),
                           .partition = tfos__message_number(message, TFOS__FIELD_PARTITION),
                           .task = tfos__message_number(message, TFOS__FIELD_TASK_ATTEMPT)};
}

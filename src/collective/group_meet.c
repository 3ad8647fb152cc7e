/* Meeting the others, by the socket to the node. Its answer may take as long as the slowest program needs to come. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "collective/group.h"
#include "net/frame.h"

static tfos_status open_node(tfos_group *group, int node, tfos_error *error)
{
    int mine = fcntl(node, F_DUPFD_CLOEXEC, 3); /* the next group of this process needs it, too */
    if (mine < 0 || fcntl(mine, F_SETFL, O_NONBLOCK) != 0) {
        if (mine >= 0) {
            close(mine);
        }
        return tfos__fail_errno(error, errno, "TFOS_GROUP_FD is %d, which is no socket of a node", node);
    }
    return tfos__dial_adopt(mine, NULL, NULL, "the node of this program", NULL, &group->node, error);
}

static tfos_status ask(tfos_group *group, const tfos__group_opening *opening, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_MEET);
    tfos__message_put_number(&message, TFOS__FIELD_MEETING, group->meeting);
    tfos__message_put_number(&message, TFOS__FIELD_WAIT_MS, (uint64_t)group->timeout_ms);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, opening->far_port);
    tfos__message_put_string(&message, TFOS__FIELD_SHARES, opening->shares);
    tfos__message_put_string(&message, TFOS__FIELD_BOARD_NAME, opening->board_name);
    return tfos__dial_send(group->node, &message, error);
}

static tfos_status add_member(tfos_group *group, size_t *capacity, const tfos__message *message, tfos_error *error)
{
    char name[65];
    if (message->type != TFOS__MESSAGE_MEMBER) {
        return tfos__fail(error, TFOS_CORRUPT, "the coordinator sent a list of workers with a message %s in it",
                          tfos__message_name(message->type));
    }
    TFOS_TRY(tfos__array_reserve(&group->members, group->size, capacity, sizeof *group->members, error));
    tfos__group_member *added = &group->members[group->size++];
    *added = (tfos__group_member){.port = (uint16_t)tfos__message_number(message, TFOS__FIELD_PORT)};
    tfos__message_copy(message, TFOS__FIELD_NODE, name, sizeof name);
    tfos__message_copy(message, TFOS__FIELD_HOST, added->host, sizeof added->host);
    tfos__message_copy(message, TFOS__FIELD_SHARES, added->shares, sizeof added->shares);
    tfos__message_copy(message, TFOS__FIELD_BOARD_NAME, added->board_name, sizeof added->board_name);
    snprintf(added->name, sizeof added->name, "%s on %s", name, added->host);
    return TFOS_OK;
}

static tfos_status take_members(tfos_group *group, const tfos__message *met, tfos_error *error)
{
    size_t capacity = 0;
    size_t used;
    tfos__text list = tfos__message_text(met, TFOS__FIELD_MEMBERS);
    tfos__text key = tfos__message_text(met, TFOS__FIELD_GROUP_KEY);
    for (size_t at = 0; at < list.count; at += used) {
        tfos__message member;
        tfos_status status = tfos__frame_take(list.at + at, list.count - at, TFOS__FRAME_BYTES, &member, &used, error);
        if (status == TFOS_END) {
            return tfos__fail(error, TFOS_CORRUPT, "the coordinator sent a list of workers that is cut short");
        }
        TFOS_TRY(status);
        TFOS_TRY(add_member(group, &capacity, &member, error));
    }
    group->rank = tfos__message_number(met, TFOS__FIELD_RANK);
    group->beat_ms = (int64_t)tfos__message_number(met, TFOS__FIELD_BEAT_MS);
    if (group->rank >= group->size || key.count != sizeof group->key) {
        return tfos__fail(error, TFOS_CORRUPT, "worker %zu of %zu was given a key of %zu bytes, expected %zu",
                          group->rank, group->size, key.count, sizeof group->key);
    }
    memcpy(group->key, key.at, sizeof group->key);
    return TFOS_OK;
}

/* An answer to an earlier question, which nobody waits for any more, is passed over. */
static tfos_status await_answer(tfos_group *group, const tfos__group_opening *opening, tfos_error *error)
{
    enum { SLICE_MS = 100 };
    tfos__message message;
    for (;;) {
        tfos_status status = tfos__dial_receive(group->node, SLICE_MS, &message, error);
        if (status == TFOS_END) {
            TFOS_TRY(tfos__group_check_patience(opening, "the other workers", error));
            continue;
        }
        TFOS_TRY(status);
        if (tfos__message_number(&message, TFOS__FIELD_MEETING) != group->meeting) {
            continue;
        }
        if (message.type == TFOS__MESSAGE_MET) {
            return take_members(group, &message, error);
        }
        tfos_error told;
        tfos__message_error(&message, &told);
        return tfos__fail(error, told.status, "%s", told.message);
    }
}

tfos_status tfos__group_meet(tfos_group *group, int node, const tfos__group_opening *opening, tfos_error *error)
{
    TFOS_TRY(open_node(group, node, error));
    TFOS_TRY(ask(group, opening, error));
    return await_answer(group, opening, error);
}

/* The watch: a thread that shows the node of this program that it lives, and sees when another worker of this machine
 * is gone. Then all that compute here fail, but not at once: if a program has died, or has raised and says good-bye at
 * its end, the coordinator knows why, and stops the others; only when that does not happen they have to find an end by
 * themselves. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "collective/group.h"
#include "feed/packet.h"

enum {
    LOSS_MS = 5000, /* for the coordinator to say what a loss means */
    BEAT_MS = 1000,
};

/* What is polled: the end of the watch, the node, then a place for each mate. */
enum { WAKE, NODE, MATES };

static void send_pulse(tfos_group *group)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_PULSE);
    if (group->node != NULL && tfos__dial_send(group->node, &message, NULL) != TFOS_OK) {
        tfos__dial_close(group->node);
        group->node = NULL;
    }
}

/* The node has nothing to say to us; but it may be gone. */
static void hear_node(tfos_group *group)
{
    tfos__message message;
    tfos_status status;
    do {
        status = tfos__dial_receive(group->node, 0, &message, NULL);
    } while (status == TFOS_OK);
    if (status != TFOS_END) {
        tfos__dial_close(group->node);
        group->node = NULL;
        tfos__board_fail(group->board, TFOS_IO, "the node of this program is gone");
    }
}

static void hear_mate(tfos__mate *mate)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    tfos_status status = tfos__packet_receive(mate->socket, &packet, fds, NULL);
    if (status == TFOS_OK) {
        mate->left = packet.kind == TFOS__PACKET_PART;
        tfos__packet_close_fds(fds);
    } else if (status != TFOS_END) {
        close(mate->socket);
        mate->socket = -1;
        mate->lost_ms = tfos__clock_ms() + LOSS_MS;
    }
}

static void count_loss(tfos_group *group, const tfos__mate *mate)
{
    char text[TFOS__BOARD_TEXT_BYTES];
    snprintf(text, sizeof text,
             mate->left ? "%s has left: its program has ended, or closed the group"
                        : "%s is gone: its process has ended without a word, or was killed",
             group->members[mate->rank].name);
    tfos__board_fail(group->board, TFOS_IO, text);
}

/* Counts the losses that are due, and says how long it is to the next one; -1: there is none. */
static int64_t look_for_losses(tfos_group *group)
{
    int64_t next = -1;
    int64_t now = tfos__clock_ms();
    for (size_t i = 0; i < group->mate_count; i++) {
        tfos__mate *mate = &group->mates[i];
        if (mate->lost_ms == 0) {
            continue;
        }
        if (mate->lost_ms <= now) {
            count_loss(group, mate);
            mate->lost_ms = 0;
        } else if (next < 0 || mate->lost_ms - now < next) {
            next = mate->lost_ms - now;
        }
    }
    return next;
}

static void *watch(void *context)
{
    tfos_group *group = context;
    int64_t beat_ms = group->beat_ms > 0 ? group->beat_ms : BEAT_MS;
    int64_t pulse_due = 0;
    struct pollfd *files = calloc(MATES + group->mate_count, sizeof *files);
    while (files != NULL) {
        int64_t now = tfos__clock_ms();
        if (now >= pulse_due) {
            send_pulse(group);
            pulse_due = now + beat_ms;
        }
        int64_t loss = look_for_losses(group);
        int64_t wait = loss >= 0 ? tfos__min_i64(loss, pulse_due - now) : pulse_due - now;
        files[WAKE] = (struct pollfd){.fd = group->wake, .events = POLLIN};
        files[NODE] =
            (struct pollfd){.fd = group->node != NULL ? tfos__dial_socket(group->node) : -1, .events = POLLIN};
        for (size_t i = 0; i < group->mate_count; i++) {
            files[MATES + i] = (struct pollfd){.fd = group->mates[i].socket, .events = POLLIN};
        }
        int ready = poll(files, MATES + group->mate_count, (int)tfos__max_i64(0, wait));
        if (ready > 0 && files[WAKE].revents != 0) {
            break;
        }
        if (ready > 0 && files[NODE].revents != 0) {
            hear_node(group);
        }
        for (size_t i = 0; ready > 0 && i < group->mate_count; i++) {
            if (files[MATES + i].revents != 0) {
                hear_mate(&group->mates[i]);
            }
        }
    }
    free(files);
    return NULL;
}

tfos_status tfos__group_watch(tfos_group *group, tfos_error *error)
{
    send_pulse(group); /* from now on the node watches, also if the thread does not come to run */
    group->wake = eventfd(0, EFD_CLOEXEC);
    if (group->wake < 0) {
        return tfos__fail_errno(error, errno, "cannot watch the other workers");
    }
    int code = tfos__thread_start(&group->watcher, watch, group);
    if (code != 0) {
        return tfos__fail_errno(error, code, "cannot start a thread to watch the other workers");
    }
    group->watched = true;
    return TFOS_OK;
}

void tfos__group_leave(tfos_group *group)
{
    tfos__message message;
    tfos__packet packet;
    if (group->watched) {
        uint64_t one = 1;
        (void)!write(group->wake, &one, sizeof one);
        pthread_join(group->watcher, NULL);
        group->watched = false;
    }
    tfos__packet_init(&packet, TFOS__PACKET_PART);
    for (size_t i = 0; i < group->mate_count; i++) {
        if (group->mates[i].socket >= 0) {
            (void)tfos__packet_send(group->mates[i].socket, &packet, NULL, 0, NULL);
            close(group->mates[i].socket);
            group->mates[i].socket = -1;
        }
    }
    if (group->node != NULL) {
        tfos__message_init(&message, TFOS__MESSAGE_PART);
        (void)tfos__dial_send(group->node, &message, NULL);
        tfos__dial_close(group->node);
        group->node = NULL;
    }
    if (group->wake >= 0) {
        close(group->wake);
        group->wake = -1;
    }
}

/* Gathering by doubling: after the step with the links that are 2^i long, a host has the blocks of itself and of the
 * 2^(i+1) - 1 hosts before it, or of all. What it sends is always the beginning of what it has, and what comes goes
 * behind it:
 *
 *   blocks   this host · 1 before · 2 before · 3 before · …
 *            └────── sent in a step ──┘ └─ came in it ─ …
 */
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "collective/far_state.h"

/* One step. */
typedef struct step {
    tfos__far *far;
    size_t count;   /* of blocks that go, and come */
    size_t most;    /* bytes of a block */
    size_t came_at; /* in `blocks`: where those that come begin */
} step;

static size_t lengths_bytes(const step *self)
{
    return self->count * sizeof(uint64_t);
}

static const uint8_t *source(tfos__flow *flow, size_t *run)
{
    const step *self = flow->context;
    size_t lengths = lengths_bytes(self);
    if (flow->sent < lengths) {
        *run = lengths - (size_t)flow->sent;
        return (const uint8_t *)self->far->lengths + flow->sent;
    }
    *run = (size_t)(flow->to_send - flow->sent);
    return self->far->blocks.data + (flow->sent - lengths);
}

static uint8_t *room(tfos__flow *flow, size_t *run)
{
    const step *self = flow->context;
    size_t lengths = lengths_bytes(self);
    if (flow->come < lengths) {
        *run = lengths - (size_t)flow->come;
        return (uint8_t *)(self->far->lengths + self->far->block_count) + flow->come;
    }
    *run = (size_t)(flow->to_come - flow->come);
    return self->far->blocks.data + self->came_at + (flow->come - lengths);
}

/* When all lengths are there, it is known how much follows. */
static tfos_status came(tfos__flow *flow, size_t bytes, tfos_error *error)
{
    const step *self = flow->context;
    tfos__far *far = self->far;
    (void)bytes;
    if (flow->come != lengths_bytes(self) || flow->to_come != flow->come) {
        return TFOS_OK;
    }
    for (size_t i = 0; i < self->count; i++) {
        uint64_t length = far->lengths[far->block_count + i];
        if (length > self->most) {
            return tfos__fail(error, TFOS_CORRUPT,
                              "a host sends %llu bytes where at most %zu are expected: all workers must run the same "
                              "version",
                              (unsigned long long)length, self->most);
        }
        flow->to_come += length;
    }
    size_t come_bytes = (size_t)(flow->to_come - flow->come);
    TFOS_TRY(tfos__buffer_reserve(&far->blocks, self->came_at + come_bytes, error));
    far->blocks.size = self->came_at + come_bytes;
    return TFOS_OK;
}

static tfos_status take_step(tfos__far *far, size_t link, size_t most, tfos_error *error)
{
    size_t have = far->block_count;
    size_t lacking = far->options.hosts - have;
    step self = {.far = far, .count = have < lacking ? have : lacking, .most = most, .came_at = far->blocks.size};
    tfos__flow flow = {.out = link,
                       .in = link,
                       .to_send = lengths_bytes(&self),
                       .to_come = lengths_bytes(&self),
                       .source = source,
                       .room = room,
                       .came = came,
                       .context = &self};
    for (size_t i = 0; i < self.count; i++) {
        flow.to_send += far->lengths[i];
    }
    flow.ready = flow.to_send;
    TFOS_TRY(tfos__far_flow(far, &flow, error));
    far->block_count += self.count;
    return TFOS_OK;
}

tfos_status tfos__far_gather(tfos__far *far, const void *mine, size_t bytes, size_t most, tfos_error *error)
{
    far->blocks.size = 0;
    TFOS_TRY(tfos__buffer_append(&far->blocks, mine, bytes, error));
    far->lengths[0] = bytes;
    far->block_count = 1;
    for (size_t link = 0; link < far->links; link++) {
        TFOS_TRY(take_step(far, link, most, error));
    }
    return TFOS_OK;
}

const uint8_t *tfos__far_block(const tfos__far *far, size_t host, size_t *bytes)
{
    size_t place = (far->options.host + far->options.hosts - host) % far->options.hosts;
    size_t at = 0;
    for (size_t i = 0; i < place; i++) {
        at += (size_t)far->lengths[i];
    }
    *bytes = (size_t)far->lengths[place];
    return far->blocks.data + at;
}

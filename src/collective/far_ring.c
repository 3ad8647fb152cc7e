/* A ring, and a relay on the same links.
 *
 * The wire is cut into as many chunks as there are hosts. In each of 2 · (hosts - 1) steps every host sends one chunk
 * and gets the one before it; in the first half what comes is combined with what the host has, in the second half it is
 * the result. What comes in a step is what is sent in the next, so both are streams, and a byte can be sent on as soon
 * as its line was combined:
 *
 *   host 2 of 4   sends   c2 │ c1 │ c0 │ c3 │ c2 │ c1
 *                 gets    c1 │ c0 │ c3 │ c2 │ c1 │ c0
 *                         combined ────┤ results ────
 */
#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "collective/far_state.h"

enum { LINE = 64 };

typedef struct chunk {
    size_t at;
    size_t bytes;
} chunk;

typedef struct going_around {
    tfos__far *far;
    tfos__ring *ring;
    size_t send_step;
    size_t send_done; /* bytes of its chunk that were sent before */
    size_t come_step;
    size_t come_done; /* bytes of its chunk that are combined, or there */
    size_t raw;       /* bytes behind them, not yet a line, in the scratch */
    uint64_t sent_before;
} going_around;

static chunk chunk_of(const tfos__far *far, size_t bytes, size_t which)
{
    size_t hosts = far->options.hosts;
    size_t lines = bytes / LINE;
    size_t first = lines * which / hosts * LINE;
    return (chunk){.at = first, .bytes = lines * (which + 1) / hosts * LINE - first};
}

/* The chunk that is sent in a step; the one that comes is sent in the next. */
static chunk chunk_at(const going_around *self, size_t step)
{
    size_t hosts = self->far->options.hosts;
    return chunk_of(self->far, self->ring->bytes, (self->far->options.host + 2 * hosts - step) % hosts);
}

static const uint8_t *source(tfos__flow *flow, size_t *run)
{
    going_around *self = flow->context;
    self->send_done += (size_t)(flow->sent - self->sent_before);
    self->sent_before = flow->sent;
    chunk now = chunk_at(self, self->send_step);
    while (self->send_done == now.bytes) {
        self->send_done = 0;
        now = chunk_at(self, ++self->send_step);
    }
    *run = now.bytes - self->send_done;
    return self->ring->wire + now.at + self->send_done;
}

static bool is_combined(const going_around *self)
{
    return self->come_step < self->far->options.hosts - 1;
}

/* The chunk that comes; empty ones are passed over. */
static chunk coming(going_around *self)
{
    chunk now = chunk_at(self, self->come_step + 1);
    while (self->come_done == now.bytes) {
        self->come_done = 0;
        now = chunk_at(self, ++self->come_step + 1);
    }
    return now;
}

static uint8_t *room(tfos__flow *flow, size_t *run)
{
    going_around *self = flow->context;
    chunk now = coming(self);
    size_t left = now.bytes - self->come_done - self->raw;
    if (!is_combined(self)) {
        *run = left;
        return self->ring->wire + now.at + self->come_done;
    }
    size_t free_bytes = TFOS__FAR_SCRATCH_BYTES - self->raw;
    *run = left < free_bytes ? left : free_bytes;
    return self->far->scratch + self->raw;
}

static tfos_status came(tfos__flow *flow, size_t bytes, tfos_error *error)
{
    going_around *self = flow->context;
    tfos__ring *ring = self->ring;
    (void)error;
    if (!is_combined(self)) {
        self->come_done += bytes;
        flow->ready += bytes;
        return TFOS_OK;
    }
    self->raw += bytes;
    size_t whole = self->raw / LINE * LINE;
    if (whole > 0) {
        size_t at = coming(self).at + self->come_done;
        ring->combine(ring->context, at, whole, self->far->scratch);
        memmove(self->far->scratch, self->far->scratch + whole, self->raw - whole);
        self->raw -= whole;
        self->come_done += whole;
        flow->ready += whole;
    }
    return TFOS_OK;
}

void tfos__ring_chunk(const tfos__far *far, size_t bytes, size_t *at, size_t *chunk_bytes)
{
    chunk first = chunk_of(far, bytes, far->options.host);
    *at = first.at;
    *chunk_bytes = first.bytes;
}

tfos_status tfos__far_ring(tfos__far *far, tfos__ring *ring, tfos_error *error)
{
    going_around self = {.far = far, .ring = ring};
    tfos__flow flow = {.source = source, .room = room, .came = came, .context = &self};
    assert(ring->bytes % LINE == 0);
    for (size_t step = 0; step < 2 * (far->options.hosts - 1); step++) {
        flow.to_send += chunk_at(&self, step).bytes;
        flow.to_come += chunk_at(&self, step + 1).bytes;
    }
    uint64_t own = chunk_at(&self, 0).bytes;
    flow.ready = own < flow.to_send ? own : flow.to_send;
    return tfos__far_flow(far, &flow, error);
}

/* ---- a relay ---- */

static const uint8_t *relayed(tfos__flow *flow, size_t *run)
{
    *run = (size_t)(flow->ready - flow->sent);
    return (const uint8_t *)flow->context + flow->sent;
}

static uint8_t *relay_room(tfos__flow *flow, size_t *run)
{
    *run = (size_t)(flow->to_come - flow->come);
    return (uint8_t *)flow->context + flow->come;
}

tfos_status tfos__far_relay(tfos__far *far, size_t from, uint8_t *bytes, size_t count, tfos_error *error)
{
    bool first = far->options.host == from;
    bool last = tfos__far_host_behind(far->options.hosts, far->options.host, 0) == from;
    tfos__flow flow = {.to_send = last ? 0 : count,
                       .ready = first ? count : 0,
                       .to_come = first ? 0 : count,
                       .source = relayed,
                       .room = relay_room,
                       .context = bytes};
    return tfos__far_flow(far, &flow, error);
}

/* An event loop in a test, as in our own processes: a peer that is gone is an error of its connection (EPIPE), and no
 * signal that ends everything. libuv leaves that to its user. */
#ifndef TFOS_HELPER_LOOP_H
#define TFOS_HELPER_LOOP_H

#include <signal.h>

#include <uv.h>

static inline int helper_loop_init(uv_loop_t *loop)
{
    signal(SIGPIPE, SIG_IGN);
    return uv_loop_init(loop);
}

#endif

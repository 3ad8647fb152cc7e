/* Sockets are made without libuv and given to it when they listen: libuv reports a port that is in use only afterwards,
 * and would want its handle closed, by the loop, before the next port can be tried. */
#include "service/listener.h"

#include <unistd.h>

#include "base/status.h"

enum { WAITING_MOST = 1024 }; /* connections that the kernel keeps until they are accepted */

tfos_status tfos__listener_open(uv_tcp_t *listener, const char *host, const tfos__ports *ports,
                                uv_connection_cb on_connection, uint16_t *port, tfos_error *error)
{
    int made;
    TFOS_TRY(tfos__listen(host, ports, &made, port, error));
    int code = uv_tcp_open(listener, made);
    if (code != 0) {
        close(made);
    } else {
        code = uv_listen((uv_stream_t *)listener, WAITING_MOST, on_connection);
    }
    return code == 0 ? TFOS_OK : tfos__fail_errno(error, -code, "cannot listen on '%s', port %u", host, *port);
}

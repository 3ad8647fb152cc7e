/* Options that can grow. */
#include "base/options.h"

#include <assert.h>
#include <string.h>

#include "base/status.h"

void tfos__options_init(void *options, size_t size, const void *defaults, size_t bytes)
{
    assert(size >= sizeof size);
    memset(options, 0, size);
    memcpy(options, defaults, size < bytes ? size : bytes);
    memcpy(options, &size, sizeof size);
}

tfos_status tfos__options_take(const char *name, const void *from, const void *defaults, void *out, size_t bytes,
                               tfos_error *error)
{
    size_t size = bytes;
    if (from != NULL) {
        memcpy(&size, from, sizeof size);
    }
    if (size < sizeof size) {
        return tfos__fail(error, TFOS_INVALID, "%s: its size is %zu; fill it in with %s_init before anything is set",
                          name, size, name);
    }
    if (size > bytes) {
        return tfos__fail(error, TFOS_INVALID,
                          "%s: its size is %zu, and libtfos %s knows %zu bytes of it: the program was compiled for a "
                          "newer version, or has not filled it in with %s_init",
                          name, size, TFOS_VERSION, bytes, name);
    }
    memcpy(out, defaults, bytes);
    if (from != NULL) {
        memcpy(out, from, size);
    }
    memcpy(out, &bytes, sizeof bytes);
    return TFOS_OK;
}

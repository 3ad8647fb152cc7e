/* Base64 (RFC 4648, with padding): how binary values stand in CSV and JSON. */
#ifndef TFOS_RECORD_BASE64_H
#define TFOS_RECORD_BASE64_H

#include "base/bytes.h"

/* Appends the text of these bytes. */
tfos_status tfos__base64_encode(const void *bytes, size_t count, tfos__buffer *out, tfos_error *error);

/* Appends the bytes of this text. INVALID says where it stops being base64; `out` is then as it was. */
tfos_status tfos__base64_decode(const char *text, size_t count, tfos__buffer *out, tfos_error *error);

#endif

/* Lines. A carriage return alone does not decide: followed by a newline it is the end of a line as Windows writes it,
 * followed by anything else it is an update. So its line waits for the next byte. */
#include "node/log_lines.h"

#include "base/status.h"

static void hand_out(tfos__lines *lines, tfos__line_kind kind, tfos__line_taker taker, void *context)
{
    taker(context, lines->pending.data != NULL ? (const char *)lines->pending.data : "", lines->pending.size, kind);
    lines->pending.size = 0;
    lines->returned = false;
}

/* The bytes at the end of `pending` that begin a character which is not complete. */
static size_t incomplete_bytes(const tfos__buffer *pending)
{
    for (size_t back = 1; back <= 3 && back <= pending->size; back++) {
        uint8_t byte = pending->data[pending->size - back];
        if (byte >= 0xC0) {
            size_t whole = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
            return whole > back ? back : 0;
        }
        if (byte < 0x80) {
            return 0;
        }
    }
    return 0;
}

static void cut(tfos__lines *lines, tfos__line_taker taker, void *context)
{
    uint8_t rest[4];
    size_t count = incomplete_bytes(&lines->pending);
    lines->pending.size -= count;
    memcpy(rest, lines->pending.data + lines->pending.size, count);
    hand_out(lines, TFOS__LINE_PIECE, taker, context);
    memcpy(lines->pending.data, rest, count);
    lines->pending.size = count;
}

static size_t length_of_plain(const char *bytes, size_t count)
{
    const char *newline = memchr(bytes, '\n', count);
    size_t length = newline != NULL ? (size_t)(newline - bytes) : count;
    const char *carriage = memchr(bytes, '\r', length);
    return carriage != NULL ? (size_t)(carriage - bytes) : length;
}

tfos_status tfos__lines_feed(tfos__lines *lines, const char *bytes, size_t count, tfos__line_taker taker, void *context,
                             tfos_error *error)
{
    while (count > 0) {
        if (lines->returned && *bytes != '\n') {
            hand_out(lines, TFOS__LINE_UPDATE, taker, context);
        }
        size_t plain = length_of_plain(bytes, count);
        size_t room = TFOS__LINE_BYTES - lines->pending.size;
        size_t taken = plain < room ? plain : room;
        TFOS_TRY(tfos__buffer_append(&lines->pending, bytes, taken, error));
        bytes += taken;
        count -= taken;
        if (taken < plain) {
            cut(lines, taker, context);
        } else if (count > 0) {
            if (*bytes == '\n') {
                hand_out(lines, TFOS__LINE_WHOLE, taker, context);
            } else {
                lines->returned = true;
            }
            bytes++;
            count--;
        }
    }
    return TFOS_OK;
}

void tfos__lines_finish(tfos__lines *lines, tfos__line_taker taker, void *context)
{
    if (lines->pending.size > 0) {
        hand_out(lines, TFOS__LINE_WHOLE, taker, context);
    }
    lines->returned = false;
    tfos__buffer_reset(&lines->pending);
}

tfos_status tfos__lines_append_clean(tfos__buffer *out, const char *text, size_t count, tfos_error *error)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    while (count > 0) {
        size_t valid = tfos__utf8_valid_prefix(text, count);
        size_t plain = 0;
        while (plain < valid && text[plain] != '\0' && text[plain] != '\b') {
            plain++;
        }
        TFOS_TRY(tfos__buffer_append(out, text, plain, error));
        text += plain;
        count -= plain;
        if (count > 0) {
            if (*text != '\b') {
                TFOS_TRY(tfos__buffer_append(out, replacement, sizeof replacement - 1, error));
            }
            text++;
            count--;
        }
    }
    return TFOS_OK;
}

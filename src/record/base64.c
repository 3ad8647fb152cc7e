/* Base64: three bytes are four letters of six bits. */
#include "record/base64.h"

#include "base/status.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

tfos_status tfos__base64_encode(const void *bytes, size_t count, tfos__buffer *out, tfos_error *error)
{
    const uint8_t *in = bytes;
    TFOS_TRY(tfos__buffer_reserve(out, out->size + (count + 2) / 3 * 4, error));
    uint8_t *to = out->data + out->size;
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t three = (uint32_t)in[i] << 16;
        three |= left > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        three |= left > 2 ? in[i + 2] : 0;
        *to++ = (uint8_t)letters[three >> 18];
        *to++ = (uint8_t)letters[three >> 12 & 63];
        *to++ = left > 1 ? (uint8_t)letters[three >> 6 & 63] : '=';
        *to++ = left > 2 ? (uint8_t)letters[three & 63] : '=';
    }
    out->size = (size_t)(to - out->data);
    return TFOS_OK;
}

/* The six bits of a letter, or -1. */
static int value_of(char letter)
{
    if (letter >= 'A' && letter <= 'Z') {
        return letter - 'A';
    }
    if (letter >= 'a' && letter <= 'z') {
        return letter - 'a' + 26;
    }
    if (letter >= '0' && letter <= '9') {
        return letter - '0' + 52;
    }
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

static tfos_status fail_at(size_t at, const char *text, size_t count, tfos_error *error)
{
    return tfos__fail(error, TFOS_INVALID, "expected base64 with padding, found '%s' (wrong at character %zu of %zu)",
                      tfos__printable_of(text, count).text, at, count);
}

tfos_status tfos__base64_decode(const char *text, size_t count, tfos__buffer *out, tfos_error *error)
{
    if (count % 4 != 0) {
        return fail_at(count, text, count, error);
    }
    size_t letters_count = count;
    while (letters_count > 0 && count - letters_count < 2 && text[letters_count - 1] == '=') {
        letters_count--;
    }
    TFOS_TRY(tfos__buffer_reserve(out, out->size + count / 4 * 3, error));
    uint8_t *to = out->data + out->size;
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < letters_count; i++) {
        int value = value_of(text[i]);
        if (value < 0) {
            return fail_at(i, text, count, error);
        }
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            *to++ = (uint8_t)(bits >> held);
        }
    }
    if ((bits & ((1u << held) - 1)) != 0) {
        return fail_at(letters_count, text, count, error);
    }
    out->size = (size_t)(to - out->data);
    return TFOS_OK;
}

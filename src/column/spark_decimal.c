/* Decimals to what TensorFlow has. */
#include "column/spark_decimal.h"

#include <assert.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* 38 digits, a sign, a point, a zero before it, and zeros for a negative scale. */
enum { DIGITS_MAX = 39, TEXT_BYTES = 128, EXACT_POWERS = 22 };

/* Powers of ten up to 10^22 are doubles without rounding. */
static const double powers[EXACT_POWERS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static pthread_once_t locale_once = PTHREAD_ONCE_INIT;
static locale_t plain_locale;

static void make_locale(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool tfos__decimal_read(const uint8_t *bytes, size_t count, tfos__int128 *out)
{
    if (count == 0 || count > sizeof *out) {
        return false;
    }
    unsigned __int128 value = (bytes[0] & 0x80) != 0 ? ~(unsigned __int128)0 : 0;
    for (size_t i = 0; i < count; i++) {
        value = value << 8 | bytes[i];
    }
    *out = (tfos__int128)value;
    return true;
}

/* The digits of the unscaled value, at least `least`; returns how many. */
static int write_digits(tfos__int128 unscaled, int least, char *out)
{
    char reversed[TEXT_BYTES];
    unsigned __int128 left = unscaled < 0 ? -(unsigned __int128)unscaled : (unsigned __int128)unscaled;
    int count = 0;
    while (left != 0 || count < least) {
        reversed[count++] = (char)('0' + (int)(left % 10));
        left /= 10;
    }
    for (int i = 0; i < count; i++) {
        out[i] = reversed[count - 1 - i];
    }
    return count;
}

/* Plain notation, with as many digits behind the point as the scale says. */
static size_t write_text(tfos__int128 unscaled, int scale, char text[TEXT_BYTES])
{
    char digits[TEXT_BYTES];
    int behind = scale > 0 ? scale : 0;
    int count = write_digits(unscaled, behind + 1, digits);
    char *at = text;
    if (unscaled < 0) {
        *at++ = '-';
    }
    memcpy(at, digits, (size_t)(count - behind));
    at += count - behind;
    if (behind > 0) {
        *at++ = '.';
        memcpy(at, digits + count - behind, (size_t)behind);
        at += behind;
    }
    for (int i = scale; i < 0 && unscaled != 0; i++) {
        *at++ = '0';
    }
    *at = '\0';
    return (size_t)(at - text);
}

/* The nearest double. Where the number and the power of ten are doubles themselves, so is their quotient rounded; else
 * the text is parsed, under a locale in which the point is a point, whatever the program has set. */
static double to_real(tfos__int128 unscaled, int scale)
{
    tfos__int128 limit = (tfos__int128)1 << 53;
    if (unscaled >= -limit && unscaled <= limit && scale >= 0 && scale <= EXACT_POWERS) {
        return (double)unscaled / powers[scale];
    }
    char text[TEXT_BYTES];
    write_text(unscaled, scale, text);
    pthread_once(&locale_once, make_locale);
    return plain_locale != (locale_t)0 ? strtod_l(text, NULL, plain_locale) : strtod(text, NULL);
}

static tfos_status push_whole(tfos__vector *to, tfos__int128 unscaled, int scale, tfos_error *error)
{
    tfos__int128 value = unscaled;
    for (int i = 0; i < scale; i++) {
        value /= 10;
    }
    for (int i = scale; i < 0 && value >= INT64_MIN && value <= INT64_MAX; i++) {
        value *= 10;
    }
    if (value < INT64_MIN || value > INT64_MAX) {
        char text[TEXT_BYTES];
        write_text(unscaled, scale, text);
        return tfos__fail(error, TFOS_RANGE, "the decimal %s does not fit int64: cast to double or string", text);
    }
    return tfos__vector_push_int(to, (int64_t)value, error);
}

tfos_status tfos__decimal_push(tfos__vector *to, tfos__int128 unscaled, int scale, tfos_error *error)
{
    assert(scale >= -DIGITS_MAX && scale <= DIGITS_MAX);
    switch (to->view.type) {
    case TFOS_TYPE_INT64:
        return push_whole(to, unscaled, scale, error);
    case TFOS_TYPE_STRING: {
        char text[TEXT_BYTES];
        size_t bytes = write_text(unscaled, scale, text);
        return tfos__vector_push_bytes(to, text, bytes, error);
    }
    default:
        return tfos__vector_push_real(to, to_real(unscaled, scale), error);
    }
}

/* Numbers as text. Most numbers of a data file have few digits: those are put together from an exact integer and an
 * exact power of ten, which one division or multiplication rounds correctly. The rest goes to strtod with the "C"
 * locale. */
#include "record/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const double tfos__number_power[TFOS__NUMBER_EXACT_POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* 19 digits always fit 64 bits, 20 may not. */
enum { SAFE_DIGITS = 19 };

static pthread_once_t locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* The "C" locale, or 0 when there was no memory for it, which the callers take as "the locale of the process". */
static locale_t get_locale(void)
{
    pthread_once(&locale_once, make_locale);
    return c_locale;
}

static double slow_real(const char *text)
{
    locale_t locale = get_locale();
    return locale != (locale_t)0 ? strtod_l(text, NULL, locale) : strtod(text, NULL);
}

static tfos__number_kind parse_word(const char *at, const char *end, bool negative, double *real)
{
    size_t bytes = (size_t)(end - at);
    if (bytes == 3 && strncasecmp(at, "nan", 3) == 0) {
        *real = NAN;
    } else if ((bytes == 3 && strncasecmp(at, "inf", 3) == 0) || (bytes == 8 && strncasecmp(at, "infinity", 8) == 0)) {
        *real = negative ? -INFINITY : INFINITY;
    } else {
        return TFOS__NUMBER_NONE;
    }
    return TFOS__NUMBER_SPECIAL;
}

static tfos__number_kind finish_int(const char *text, uint64_t magnitude, long digits, bool negative, int64_t *integer,
                                    double *real)
{
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    if (digits > SAFE_DIGITS || magnitude > limit) {
        *real = slow_real(text);
        return TFOS__NUMBER_BIG;
    }
    *integer = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    *real = (double)*integer;
    return TFOS__NUMBER_INT;
}

/* Digits from `at`: adds them to *mantissa and counts those that matter, which is all but leading zeros. */
static const char *take_digits(const char *at, const char *end, uint64_t *mantissa, long *digits)
{
    while (at < end && *at >= '0' && *at <= '9') {
        if (*digits < SAFE_DIGITS) {
            *mantissa = *mantissa * 10 + (uint64_t)(*at - '0');
        }
        *digits += *mantissa != 0;
        at++;
    }
    return at;
}

/* The exponent at `at`, which is behind the "e". Exponents beyond any double are cut: they end in the slow path all the
 * same. */
static const char *take_exponent(const char *at, const char *end, long *exponent)
{
    bool negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    const char *start = at;
    long value = 0;
    while (at < end && *at >= '0' && *at <= '9') {
        value = value < 100000 ? value * 10 + (*at - '0') : value;
        at++;
    }
    *exponent += negative ? -value : value;
    return at > start ? at : NULL;
}

static tfos__number_kind finish_real(const char *text, uint64_t mantissa, long digits, long exponent, bool negative,
                                     double *real)
{
    bool exact =
        digits <= SAFE_DIGITS && mantissa <= TFOS__NUMBER_EXACT_MANTISSA && labs(exponent) < TFOS__NUMBER_EXACT_POWERS;
    if (exact) {
        double value = (double)mantissa;
        value = exponent < 0 ? value / tfos__number_power[-exponent] : value * tfos__number_power[exponent];
        *real = negative ? -value : value;
    } else {
        *real = slow_real(text);
    }
    return TFOS__NUMBER_REAL;
}

tfos__number_kind tfos__number_parse(const char *text, size_t bytes, int64_t *integer, double *real)
{
    const char *end = text + bytes;
    while (text < end && (*text == ' ' || *text == '\t')) {
        text++;
    }
    while (end > text && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    const char *at = text;
    bool negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    uint64_t mantissa = 0;
    long digits = 0;
    const char *whole = at;
    at = take_digits(at, end, &mantissa, &digits);
    long seen = at - whole;
    if (at == end && seen > 0) {
        return finish_int(text, mantissa, digits, negative, integer, real);
    }
    if (seen == 0 && at < end && *at != '.') {
        return parse_word(at, end, negative, real);
    }
    long exponent = 0;
    if (at < end && *at == '.') {
        const char *fraction = at + 1;
        at = take_digits(fraction, end, &mantissa, &digits);
        exponent = -(at - fraction);
        seen += at - fraction;
    }
    if (seen > 0 && at < end && (*at == 'e' || *at == 'E')) {
        at = take_exponent(at + 1, end, &exponent);
    }
    if (seen == 0 || at != end) {
        return TFOS__NUMBER_NONE;
    }
    return finish_real(text, mantissa, digits, exponent, negative, real);
}

size_t tfos__number_format_int(int64_t value, char *out)
{
    char digits[24];
    size_t count = 0;
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[count++] = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    size_t used = 0;
    if (value < 0) {
        out[used++] = '-';
    }
    while (count > 0) {
        out[used++] = digits[--count];
    }
    out[used] = '\0';
    return used;
}

static size_t format_word(double value, char *out)
{
    const char *word = isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    strcpy(out, word);
    return strlen(word);
}

/* Small whole numbers, which data is full of, without the search for the shortest form. */
static size_t format_whole(double value, char *out)
{
    size_t used = tfos__number_format_int((int64_t)value, out);
    memcpy(out + used, ".0", 3);
    return used + 2;
}

static bool is_small_whole(double value)
{
    return fabs(value) < 1e6 && value == (double)(int64_t)value && !(value == 0 && signbit(value));
}

/* "%.*g" with the fewest digits that read back as the same number. */
static size_t format_shortest(double value, bool is_float, char *out)
{
    locale_t locale = get_locale();
    locale_t before = locale != (locale_t)0 ? uselocale(locale) : (locale_t)0;
    int most = is_float ? 9 : 17;
    int length = 0;
    for (int digits = is_float ? 6 : 15; digits <= most; digits++) {
        length = snprintf(out, TFOS__NUMBER_BYTES, "%.*g", digits, value);
        if (is_float ? strtof(out, NULL) == (float)value : strtod(out, NULL) == value) {
            break;
        }
    }
    if (before != (locale_t)0) {
        uselocale(before);
    }
    size_t used = (size_t)length;
    if (strpbrk(out, ".e") == NULL) {
        memcpy(out + used, ".0", 3);
        used += 2;
    }
    return used;
}

static size_t format_real(double value, bool is_float, char *out)
{
    if (!isfinite(value)) {
        return format_word(value, out);
    }
    return is_small_whole(value) ? format_whole(value, out) : format_shortest(value, is_float, out);
}

size_t tfos__number_format_float(float value, char *out)
{
    return format_real((double)value, true, out);
}

size_t tfos__number_format_double(double value, char *out)
{
    return format_real(value, false, out);
}

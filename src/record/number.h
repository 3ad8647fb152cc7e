/* Numbers as text, in the "C" locale whatever locale the process has: CSV and JSON mean a point when they write a
 * point. */
#ifndef TFOS_RECORD_NUMBER_H
#define TFOS_RECORD_NUMBER_H

#include "tfos.h"

typedef enum tfos__number_kind {
    TFOS__NUMBER_NONE,    /* not a number */
    TFOS__NUMBER_INT,     /* fits int64: *integer and *real are set */
    TFOS__NUMBER_BIG,     /* an integer beyond int64: *real is near it */
    TFOS__NUMBER_REAL,    /* has a fraction or an exponent; infinite when it is beyond double */
    TFOS__NUMBER_SPECIAL, /* NaN or Infinity, written as a word */
} tfos__number_kind;

/* Reads the number that these bytes are, with spaces and tabs around it allowed. The byte behind them can be read and
 * is not part of a number: a delimiter, a quote, a line end or NUL. Hexadecimal forms are not numbers here. */
tfos__number_kind tfos__number_parse(const char *text, size_t bytes, int64_t *integer, double *real);

enum { TFOS__NUMBER_BYTES = 40 };

/* The shortest text that reads back as the same number; a real number always shows that it is one ("3.0"). NaN,
 * Infinity and -Infinity are words. Each returns the length; `out` has TFOS__NUMBER_BYTES bytes and is NUL-terminated.
 */
size_t tfos__number_format_int(int64_t value, char *out);
size_t tfos__number_format_float(float value, char *out);
size_t tfos__number_format_double(double value, char *out);

/* Powers of ten that a double holds exactly. */
enum { TFOS__NUMBER_EXACT_POWERS = 23 };
extern const double tfos__number_power[TFOS__NUMBER_EXACT_POWERS];

/* Mantissas up to this are exact in a double. */
#define TFOS__NUMBER_EXACT_MANTISSA (UINT64_C(1) << 53)

#endif

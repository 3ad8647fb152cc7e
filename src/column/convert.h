/* Numbers of one type as another, where somebody has asked for that type.
 *
 * A whole number is the same number afterwards, or an error: one that int32 has no place for, or that a float would
 * make another one of. A real number is rounded to the nearest of its new type, which is what such a type means, but it
 * does not become infinite. No real number becomes a whole one. */
#ifndef TFOS_COLUMN_CONVERT_H
#define TFOS_COLUMN_CONVERT_H

#include "tfos.h"

/* Whether values of `from` can be asked for as `to`: numbers and booleans as wider and, value by value, narrower
 * numbers; strings and binaries as each other. */
bool tfos__convert_allows(tfos_type from, tfos_type to);

/* Writes the numbers or booleans of a vector of VALUES to `data`, as numbers of the type `to`; a boolean takes a byte.
 * RANGE names the first value that does not fit, and what to do. MISMATCH where tfos__convert_allows is false. */
tfos_status tfos__convert_numbers(const tfos_vector *values, tfos_type to, void *data, tfos_error *error);

#endif

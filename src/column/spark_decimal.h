/* Decimals of Spark: a whole number of up to 38 digits, and where its point is. */
#ifndef TFOS_COLUMN_SPARK_DECIMAL_H
#define TFOS_COLUMN_SPARK_DECIMAL_H

#include "column/vector.h"

typedef __int128 tfos__int128;

/* A number written with its highest byte first. False when it has no byte or more than 16. */
bool tfos__decimal_read(const uint8_t *bytes, size_t count, tfos__int128 *out);

/* Appends unscaled / 10^scale as a double, float, int64 or string. What is behind the point is cut off for int64, as
 * Spark's own cast does; RANGE when the rest does not fit. */
tfos_status tfos__decimal_push(tfos__vector *to, tfos__int128 unscaled, int scale, tfos_error *error);

#endif

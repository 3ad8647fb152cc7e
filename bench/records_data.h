/* The two files that the records section measures, made from a fixed seed: the same bytes on every machine.
 *
 *   scalars   13 floats, 26 int64 and one string per record: a row of a click log
 *   image     784 floats and an int64 label per record: a digit */
#ifndef BENCH_RECORDS_DATA_H
#define BENCH_RECORDS_DATA_H

#include "tfos.h"

tfos_status make_scalars(const char *path, int64_t rows, tfos_error *error);
tfos_status make_image(const char *path, int64_t rows, tfos_error *error);

#endif

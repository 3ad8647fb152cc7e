/* Parts: what one reader reads of a list of files. */
#ifndef TFOS_RECORD_PARTS_H
#define TFOS_RECORD_PARTS_H

#include "record/source.h"

/* The parts that make up a shard, by the rules of tfos_read_options, in random order if rows are shuffled. `paths`,
 * which is changed, becomes the list of the files that have such a part; *out has one for each of them, and NULL where
 * whole files are read in their order.
 *
 * The caller frees *out. */
tfos_status tfos__parts_choose(tfos_paths *paths, const tfos_read_options *options, tfos__part **out,
                               tfos_error *error);

#endif

/* tfos.h: all of tfos, TensorFlow on Spark with a native core.
 *
 * Nouns, in the order in which a program meets them, and the header that has them:
 *
 *   status, error    every call that can fail returns a tfos_status and fills an optional tfos_error  tfos/base.h
 *   schema, field    the columns of a data set: name, type, shape, whether a value may be missing     tfos/column.h
 *   batch, vector    rows as columns in Arrow layout                                                  tfos/column.h
 *   rows             how rows of Python objects are made of columns, and columns of them              tfos/rows.h
 *   file system      files that the caller reaches and the library does not                           tfos/fs.h
 *   reader           TFRecord files in, batches out                                                   tfos/record.h
 *   writer           batches, Arrow arrays or raw bytes in, one TFRecord file out                     tfos/record.h
 *   index            the offsets of a TFRecord file, for seeking and splitting                        tfos/record.h
 *   table            TFRecord files as a table, by the options of a data source                       tfos/table.h
 *   cluster          TensorFlow nodes on Spark executors, as the driver sees them                     tfos/cluster.h
 *   driver           starts a cluster on Spark, feeds it and sees it through to its end               tfos/driver.h
 *   feeder           a Spark task that feeds the rows of one partition to the nodes of a cluster      tfos/feed.h
 *   feed             the rows of a queue, as the program on a node takes them                         tfos/feed.h
 *   call, part       what the workers of a cluster compute together                                   tfos/collective.h
 *   model plan       what a SavedModel takes of rows, and what it gives for each                      tfos/model.h
 *   spark rows       Spark's UnsafeRows or column vectors in, batches out                             tfos/spark.h
 *   spark writer     batches in, Spark's UnsafeRows out                                               tfos/spark.h
 *
 * The laws of errors, ownership and threads are in tfos/base.h; each header adds those of its own nouns. */
#ifndef TFOS_H
#define TFOS_H

#include "tfos/base.h"
#include "tfos/cluster.h"
#include "tfos/collective.h"
#include "tfos/column.h"
#include "tfos/driver.h"
#include "tfos/feed.h"
#include "tfos/fs.h"
#include "tfos/model.h"
#include "tfos/record.h"
#include "tfos/rows.h"
#include "tfos/spark.h"
#include "tfos/table.h"

#endif /* TFOS_H */

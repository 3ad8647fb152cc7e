/* A sink: where a pump puts the rows of its partition, and takes results from. The nodes of a cluster are one, by way
 * of a feeder; the server at the other end of a line is another. */
#ifndef TFOS_FEED_SINK_H
#define TFOS_FEED_SINK_H

#include "net/dial.h"
#include "tfos.h"

typedef struct tfos__sink tfos__sink;

/* As the functions of tfos_feeder in tfos/feed.h are described. */
typedef struct tfos__sink_functions {
    tfos_status (*put_batch)(tfos__sink *sink, const tfos_batch *batch, tfos_error *error);
    tfos_status (*take_results)(tfos__sink *sink, tfos_feeder_wait wait, tfos_batch **out, tfos_error *error);
    tfos_status (*exhaust)(tfos__sink *sink, tfos_error *error);
    tfos_status (*finish)(tfos__sink *sink, tfos_error *error);
    void (*give_up)(tfos__sink *sink, const tfos_error *why);
    int64_t (*least_lane)(const tfos__sink *sink); /* bytes that the smallest lane has, into which a row must fit */
    void (*close)(tfos__sink *sink);
} tfos__sink_functions;

/* The first member of whatever is one. */
struct tfos__sink {
    const tfos__sink_functions *functions;
    tfos__patience patience;
    uint64_t partition;
    bool inference; /* there are results */
};

/* Puts the partition before an error of its rows. */
void tfos__sink_locate(const tfos__sink *sink, tfos_error *error);

/* LIMIT, for a row of a batch, `row` of its partition, that takes so many bytes and has no room in a lane. */
tfos_status tfos__sink_refuse_row(const tfos__sink *sink, const tfos_batch *batch, int64_t first, uint64_t row,
                                  size_t bytes, tfos_error *error);

/* A pump around a sink, which is the pump's from then on, whatever the result. `feeder` is the sink, or NULL. */
tfos_status tfos__pump_new(tfos__sink *sink, tfos_feeder *feeder, const tfos_pump_source *source, tfos_pump **out,
                           tfos_error *error);

/* The feeder that it fills, to be looked at; NULL: it fills none. */
const tfos_feeder *tfos__pump_feeder(const tfos_pump *pump);

#endif

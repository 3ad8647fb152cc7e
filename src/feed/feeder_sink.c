/* A feeder as the sink of a pump; and how large a row may be that it takes. */
#include "feed/feeder_state.h"

static tfos_feeder *feeder_of(tfos__sink *sink)
{
    return (tfos_feeder *)sink; /* its first member */
}

int64_t tfos__feeder_least_lane(const tfos_feeder *feeder)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < feeder->place_count; i++) {
        const tfos__place *place = &feeder->places[i];
        if (place->lane != NULL && !place->finished) {
            least = tfos__min_i64(least, (int64_t)tfos__lane_ring_bytes(place->lane));
        }
    }
    return least != INT64_MAX ? least : feeder->lane_bytes;
}

static tfos_status put_batch(tfos__sink *sink, const tfos_batch *batch, tfos_error *error)
{
    return tfos_feeder_put_batch(feeder_of(sink), batch, error);
}

static tfos_status take_results(tfos__sink *sink, tfos_feeder_wait wait, tfos_batch **out, tfos_error *error)
{
    return tfos_feeder_take_results(feeder_of(sink), wait, out, error);
}

static tfos_status exhaust(tfos__sink *sink, tfos_error *error)
{
    return tfos_feeder_exhaust(feeder_of(sink), error);
}

static tfos_status finish(tfos__sink *sink, tfos_error *error)
{
    return tfos_feeder_finish(feeder_of(sink), error);
}

static void give_up(tfos__sink *sink, const tfos_error *why)
{
    tfos_feeder_give_up(feeder_of(sink), why);
}

static int64_t least_lane(const tfos__sink *sink)
{
    return tfos__feeder_least_lane((const tfos_feeder *)sink);
}

static void close_feeder(tfos__sink *sink)
{
    tfos_feeder_close(feeder_of(sink));
}

const tfos__sink_functions tfos__feeder_functions = {
    .put_batch = put_batch,
    .take_results = take_results,
    .exhaust = exhaust,
    .finish = finish,
    .give_up = give_up,
    .least_lane = least_lane,
    .close = close_feeder,
};

tfos_status tfos_pump_open(const tfos_feeder_options *options, const tfos_pump_source *source, tfos_pump **out,
                           tfos_error *error)
{
    tfos_feeder *feeder;
    TFOS_TRY(tfos_feeder_open(options, &feeder, error));
    return tfos__pump_new(&feeder->sink, feeder, source, out, error);
}

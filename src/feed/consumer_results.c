/* Results of inference, on their way back: each row that was taken gets one, in the order in which rows were taken, and
 * each goes back through the lane beside the one that its row came through. */
#include "base/clock.h"
#include "base/status.h"
#include "column/schema.h"
#include "feed/consumer.h"

static uint64_t owed(const tfos__queue *queue)
{
    uint64_t rows = 0;
    for (size_t i = queue->answer_first; i < queue->answer_count; i++) {
        rows += queue->answers[i].rows;
    }
    return rows;
}

static tfos_status put_schema(tfos__taken_lane *lane, const tfos_schema *schema, tfos_error *error)
{
    tfos__buffer entry = {0};
    uint8_t *to;
    if (lane->results_schema != NULL && tfos_schema_equal(lane->results_schema, schema)) {
        return TFOS_OK;
    }
    tfos_status status = tfos__entry_append_schema(schema, &entry, error);
    status = status == TFOS_OK ? tfos__lane_reserve(lane->results, entry.size, &to, error) : status;
    if (status == TFOS_OK) {
        memcpy(to, entry.data, entry.size);
        status = tfos__lane_commit(lane->results, entry.size, 0, 0, error);
        tfos__bell_ring(lane->producer); /* a result may have to wait until it is taken */
    }
    if (status == TFOS_OK) {
        tfos_schema_free(lane->results_schema);
        lane->results_schema = tfos__schema_retain(schema);
    }
    tfos__buffer_reset(&entry);
    return status;
}

/* Puts as many results into the lane as there is room for. END: there is none. */
static tfos_status put_results(tfos__taken_lane *lane, const tfos_batch *batch, int64_t first, int64_t count,
                               int64_t *out, tfos_error *error)
{
    uint8_t *to;
    TFOS_TRY(put_schema(lane, tfos_batch_schema(batch), error));
    int64_t rows = tfos__entry_rows_within(batch, first, count, tfos__lane_free_bytes(lane->results));
    size_t bytes = tfos__entry_batch_bytes(batch, first, rows > 0 ? rows : 1);
    TFOS_TRY(tfos__lane_reserve(lane->results, bytes, &to, error));
    if (rows == 0) {
        rows = 1; /* room for it has come meanwhile */
    }
    tfos__entry_write_batch(batch, first, rows, 0, to);
    TFOS_TRY(tfos__lane_commit(lane->results, bytes, (uint64_t)rows, 0, error));
    tfos__bell_ring(lane->producer);
    *out = rows;
    return TFOS_OK;
}

/* The first of the expected is done. What is done is moved out of the way now and then, for there may always be more.
 */
static void drop_first(tfos__queue *queue)
{
    queue->answer_first++;
    if (queue->answer_first * 2 >= queue->answer_count) {
        queue->answer_count -= queue->answer_first;
        memmove(queue->answers, queue->answers + queue->answer_first, queue->answer_count * sizeof *queue->answers);
        queue->answer_first = 0;
    }
}

/* Some results for the first rows that have none. *out 0: there was no room. */
static tfos_status answer(tfos__queue *queue, const tfos_batch *batch, int64_t first, int64_t *out, tfos_error *error)
{
    tfos__answer *next = &queue->answers[queue->answer_first];
    int64_t count = tfos__min_i64(tfos_batch_rows(batch) - first, (int64_t)next->rows);
    tfos_status status = TFOS_CANCELLED;
    *out = 0;
    if (next->lane != NULL) {
        status = put_results(next->lane, batch, first, count, out, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
    }
    if (status == TFOS_CANCELLED) {
        *out = count; /* the task is gone: nobody wants them */
    } else {
        TFOS_TRY(status);
    }
    next->rows -= (uint64_t)*out;
    if (next->lane != NULL) {
        next->lane->unanswered -= (uint64_t)*out;
    }
    if (next->rows == 0) {
        drop_first(queue);
    }
    return TFOS_OK;
}

/* With the lock. */
static tfos_status give(tfos_feed *feed, const tfos_batch *batch, const tfos_feed_want *want, tfos_error *error)
{
    tfos__queue *queue = feed->queue;
    int64_t rows = tfos_batch_rows(batch);
    if ((uint64_t)rows > owed(queue)) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "%lld results were given, but only %llu rows are without one; give one result for each row, "
                          "in the order of the rows",
                          (long long)rows, (unsigned long long)owed(queue));
    }
    for (int64_t first = 0; first < rows && queue->answer_first < queue->answer_count;) {
        int64_t done;
        uint32_t seen = tfos__bell_read(feed->intake->bell);
        TFOS_TRY(tfos__intake_pump(feed->intake, error));
        if (queue->answer_first == queue->answer_count) {
            break; /* the feed has ended meanwhile */
        }
        TFOS_TRY(answer(queue, batch, first, &done, error));
        first += done;
        if (done == 0) {
            TFOS_TRY(tfos__intake_look_at(feed->intake, want, INT64_MAX, error));
            tfos__intake_wait(feed->intake, seen);
        }
    }
    return TFOS_OK;
}

tfos_status tfos_feed_put_results(tfos_feed *feed, const tfos_batch *batch, const tfos_feed_want *want,
                                  tfos_error *error)
{
    tfos__intake *intake = feed->intake;
    tfos_feed_want taken;
    TFOS_TRY(tfos__feed_want_take(want, &taken, error));
    want = &taken;
    TFOS_TRY(tfos__intake_check_owner(intake, error));
    pthread_mutex_lock(&intake->lock);
    tfos_status status = tfos__intake_enter(intake, &feed->queue->answering, want, error);
    if (status == TFOS_OK) {
        status = give(feed, batch, want, error);
        tfos__intake_exit(intake, &feed->queue->answering);
    }
    pthread_mutex_unlock(&intake->lock);
    return status;
}

/* Results of inference, on their way back: each row that was taken gets one, in the order in which rows were taken, and
 * each goes back through the lane beside the one that its row came through. */
#include "base/clock.h"
#include "base/status.h"
#include "feed/consumer.h"

static uint64_t owed(const tfos__queue *queue)
{
    uint64_t rows = 0;
    for (size_t i = queue->answer_first; i < queue->answer_count; i++) {
        rows += queue->answers[i].rows;
    }
    return rows;
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
        status = tfos__lane_put_rows(&next->lane->writer, batch, first, count, SIZE_MAX, 0, out, error);
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

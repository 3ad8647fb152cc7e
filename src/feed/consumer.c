/* The consumer: what the program on a node takes rows with.
 *
 * A batch is filled from one lane after the other: an entry is read to its end before the next lane has its turn, which
 * keeps copies long and is fair enough, for entries are small. What was taken counts as consumed; rows that were put
 * into a batch before a call failed or timed out stay there for the next call.
 *
 * Epochs: a mark says that every row of an epoch is in a lane. Lanes that come after it belong to the next epoch and
 * are left alone until those before it are empty. */
#include "feed/consumer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "column/append.h"
#include "column/schema.h"

enum { POOL_BATCHES = 4 };

/* What a look at the lanes came to. */
typedef enum step {
    STEP_NOTHING, /* there is nothing at the moment */
    STEP_ON,      /* something was read, there may be more */
    STEP_FULL,    /* the batch is to be handed out */
} step;

/* ---- entries ---- */

static tfos_status set_schema(tfos__queue *queue, tfos__taken_lane *lane, const uint8_t *bytes, tfos_error *error)
{
    tfos_schema *schema;
    TFOS_TRY(tfos__entry_read_schema(bytes, &lane->entry, &schema, error));
    tfos_schema_free(lane->schema);
    lane->schema = schema;
    if (queue->schema == NULL) {
        queue->schema = tfos__schema_retain(schema);
    }
    return TFOS_OK;
}

/* Gives the room of the entry back to the producer. */
static void end_entry(tfos__taken_lane *lane)
{
    tfos__lane_release(lane->lane, lane->entry.bytes);
    tfos__bell_ring(lane->producer);
    lane->reading = false;
}

static tfos_status begin_entry(tfos__queue *queue, tfos__taken_lane *lane, const uint8_t *bytes, size_t count,
                               step *out, tfos_error *error)
{
    *out = STEP_ON;
    TFOS_TRY(tfos__entry_read(bytes, count, &lane->entry, error));
    if (lane->entry.kind == TFOS__ENTRY_SCHEMA) {
        TFOS_TRY(set_schema(queue, lane, bytes, error));
        end_entry(lane);
        return TFOS_OK;
    }
    if (lane->entry.kind == TFOS__ENTRY_GAP) {
        end_entry(lane);
        return TFOS_OK;
    }
    if (lane->entry.kind == TFOS__ENTRY_PARTITION) {
        /* Nobody sends more before the results are back. */
        *out = lane->results != NULL && queue->batch_rows > 0 ? STEP_FULL : STEP_ON;
        end_entry(lane);
        return TFOS_OK;
    }
    if (lane->schema == NULL) {
        return tfos__fail(error, TFOS_CORRUPT, "a lane has rows before it has a schema");
    }
    TFOS_TRY(tfos__entry_read_batch(bytes, &lane->entry, lane->schema, &lane->views, error));
    lane->reading = lane->entry.rows > 0;
    lane->row = 0;
    if (!lane->reading) {
        end_entry(lane);
    }
    return TFOS_OK;
}

/* ---- the batch ---- */

static bool pool_fits(const tfos__queue *queue, const tfos_schema *as, const tfos__taken_lane *lane)
{
    return queue->pool != NULL && queue->pool_as_fed == (as == NULL) &&
           tfos_schema_equal(queue->pool_schema, as != NULL ? as : lane->schema);
}

static tfos_status change_pool(tfos__queue *queue, const tfos_schema *as, const tfos__taken_lane *lane,
                               tfos_error *error)
{
    const tfos_schema *schema = as != NULL ? as : lane->schema;
    tfos__batch_pool *pool;
    TFOS_TRY(tfos__batch_pool_new(schema, POOL_BATCHES, &pool, error));
    tfos__batch_pool_free(queue->pool);
    tfos_schema_free(queue->pool_schema);
    queue->pool = pool;
    queue->pool_schema = tfos__schema_retain(schema);
    queue->pool_as_fed = as == NULL;
    return TFOS_OK;
}

/* The vector of the rows that a column of the batch is made of. */
static tfos_status find_column(const tfos__queue *queue, const tfos__taken_lane *lane, size_t column,
                               const tfos_vector **out, tfos_error *error)
{
    const tfos_field *wanted = tfos_schema_field(tfos_batch_schema(queue->batch), column);
    int64_t from =
        queue->pool_as_fed ? (int64_t)column : tfos__schema_find(lane->schema, wanted->name, strlen(wanted->name));
    if (from < 0) {
        return tfos__fail(error, TFOS_MISMATCH, "the rows that are fed have no column of this name");
    }
    const tfos_field *found = tfos_schema_field(lane->schema, (size_t)from);
    if (found->type != wanted->type || found->feature_list != wanted->feature_list ||
        (found->shape == TFOS_SHAPE_SCALAR) != (wanted->shape == TFOS_SHAPE_SCALAR)) {
        char texts[2][64];
        tfos__field_describe(wanted, texts[0], sizeof texts[0]);
        tfos__field_describe(found, texts[1], sizeof texts[1]);
        return tfos__fail(error, TFOS_MISMATCH,
                          "expected %s, found %s; declare the type where the rows are fed, or ask "
                          "for the type that they have",
                          texts[0], texts[1]);
    }
    *out = &lane->views.vector[lane->views.column[from]];
    return TFOS_OK;
}

/* Appends rows of the entry to the batch, column by column; all columns or none. */
static tfos_status append_rows(tfos__queue *queue, const tfos__taken_lane *lane, int64_t count, tfos_error *error)
{
    size_t columns = tfos_schema_field_count(tfos_batch_schema(queue->batch));
    for (size_t i = 0; i < columns; i++) {
        const tfos_vector *from = NULL;
        tfos_status status = find_column(queue, lane, i, &from, error);
        if (status == TFOS_OK) {
            status = tfos__vector_append(tfos__batch_vector(queue->batch, i), from, lane->row, count, error);
        }
        if (status != TFOS_OK) {
            const char *name = tfos_schema_field(tfos_batch_schema(queue->batch), i)->name;
            for (size_t before = 0; before < i; before++) {
                tfos__vector_truncate(tfos__batch_vector(queue->batch, before), queue->batch_rows);
            }
            tfos__error_prefix(error, "column '%s', partition %llu, rows from %llu on", tfos__printable_text(name).text,
                               (unsigned long long)tfos__lane_id_of(lane->lane)->attempt.partition,
                               (unsigned long long)lane->entry.first_row + (unsigned long long)lane->row);
            return status;
        }
    }
    return TFOS_OK;
}

/* Remembers whose rows these were, for the results. Room for that was made before. */
static void expect_results(tfos__queue *queue, tfos__taken_lane *lane, int64_t count)
{
    if (lane->results == NULL) {
        return;
    }
    bool more = queue->answer_count > queue->answer_first && queue->answers[queue->answer_count - 1].lane == lane;
    if (!more) {
        queue->answers[queue->answer_count++] = (tfos__answer){.lane = lane};
    }
    queue->answers[queue->answer_count - 1].rows += (uint64_t)count;
    lane->unanswered += (uint64_t)count;
}

/* An empty batch of the right schema, if there is none. */
static tfos_status prepare_batch(tfos__queue *queue, const tfos__taken_lane *lane, const tfos_schema *as,
                                 tfos_error *error)
{
    bool fits = pool_fits(queue, as, lane);
    if (queue->batch != NULL && fits) {
        return TFOS_OK;
    }
    tfos_batch_free(queue->batch); /* it is empty: its first rows did not fit what was asked for then */
    queue->batch = NULL;
    queue->batch_rows = 0;
    if (!fits) {
        TFOS_TRY(change_pool(queue, as, lane, error));
    }
    return tfos__batch_take(queue->pool, &queue->batch, error);
}

static tfos_status take_rows(tfos__intake *intake, tfos__queue *queue, tfos__taken_lane *lane,
                             const tfos_feed_want *want, step *out, tfos_error *error)
{
    if (queue->batch_rows > 0 && !pool_fits(queue, want->as, lane)) {
        *out = STEP_FULL; /* rows of another schema make another batch */
        return TFOS_OK;
    }
    TFOS_TRY(prepare_batch(queue, lane, want->as, error));
    TFOS_TRY(tfos__array_reserve(&queue->answers, queue->answer_count, &queue->answer_capacity, sizeof *queue->answers,
                                 error));
    int64_t count = tfos__min_i64((int64_t)lane->entry.rows - lane->row, want->rows - queue->batch_rows);
    TFOS_TRY(append_rows(queue, lane, count, error));
    expect_results(queue, lane, count);
    tfos__lane_take_rows(lane->lane, (uint64_t)count);
    tfos__bell_take(intake->bell, (uint64_t)count);
    queue->batch_rows += count;
    lane->row += count;
    if (lane->row == (int64_t)lane->entry.rows) {
        end_entry(lane);
    }
    *out = queue->batch_rows >= want->rows ? STEP_FULL : STEP_ON;
    return TFOS_OK;
}

/* ---- lanes in turn ---- */

/* A lane that is read to its end is left, unless its task waits for results. True if it was. */
static bool end_lane(tfos__intake *intake, tfos__queue *queue, tfos__taken_lane *lane, bool fed_out)
{
    lane->drained = fed_out;
    if (!fed_out || (lane->unanswered > 0 && !tfos__intake_is_unwanted(lane))) {
        return false;
    }
    tfos__intake_leave(intake, queue, lane);
    return true;
}

static tfos_status step_lane(tfos__intake *intake, tfos__queue *queue, tfos__taken_lane *lane,
                             const tfos_feed_want *want, step *out, tfos_error *error)
{
    const uint8_t *bytes;
    size_t count;
    bool fed_out;
    *out = STEP_NOTHING;
    if (lane->marks > queue->marks_passed) {
        return TFOS_OK; /* of the next epoch */
    }
    if (lane->reading) {
        return take_rows(intake, queue, lane, want, out, error);
    }
    TFOS_TRY(tfos__lane_peek(lane->lane, &bytes, &count, &fed_out, error));
    if (count > 0) {
        return begin_entry(queue, lane, bytes, count, out, error);
    }
    if (end_lane(intake, queue, lane, fed_out)) {
        *out = STEP_ON;
    }
    return TFOS_OK;
}

/* Goes round the lanes until the batch is full or none of them has anything. */
static tfos_status take(tfos__intake *intake, tfos__queue *queue, const tfos_feed_want *want, step *out,
                        tfos_error *error)
{
    size_t idle = 0;
    *out = STEP_NOTHING;
    while (idle < queue->lane_count) {
        tfos__taken_lane *lane = queue->current != NULL ? queue->current : queue->lanes;
        step did;
        queue->current = lane;
        bool was_reading = lane->reading;
        TFOS_TRY(step_lane(intake, queue, lane, want, &did, error));
        if (queue->current == lane && (did == STEP_NOTHING || (was_reading && !lane->reading))) {
            queue->current = lane->next; /* an entry was read to its end: the next lane's turn */
        }
        if (did == STEP_FULL) {
            *out = STEP_FULL;
            return TFOS_OK;
        }
        idle = did == STEP_ON ? 0 : idle + 1;
    }
    return TFOS_OK;
}

/* Reads what is no row at the beginning of lanes, and leaves those that are over: nobody may ever ask for rows again,
 * and others wait to hear of it. */
static tfos_status sweep(tfos__intake *intake, tfos__queue *queue, tfos_error *error)
{
    for (tfos__taken_lane *lane = queue->lanes, *following; lane != NULL; lane = following) {
        const uint8_t *bytes;
        size_t count;
        bool fed_out;
        step did;
        following = lane->next;
        /* The end of a partition is also that of a batch which has rows. */
        if (lane->reading || lane->marks > queue->marks_passed || (lane->results != NULL && queue->batch_rows > 0)) {
            continue;
        }
        TFOS_TRY(tfos__lane_peek(lane->lane, &bytes, &count, &fed_out, error));
        while (count > 0 && !lane->reading) {
            TFOS_TRY(begin_entry(queue, lane, bytes, count, &did, error));
            TFOS_TRY(tfos__lane_peek(lane->lane, &bytes, &count, &fed_out, error));
        }
        if (count == 0) {
            (void)end_lane(intake, queue, lane, fed_out);
        }
    }
    return TFOS_OK;
}

/* Whether a lane of the current epoch is left, which may still get rows. */
static bool epoch_is_open(const tfos__queue *queue)
{
    for (const tfos__taken_lane *lane = queue->lanes; lane != NULL; lane = lane->next) {
        if (lane->marks <= queue->marks_passed && !lane->drained) {
            return true;
        }
    }
    return false;
}

/* Whether rows may be in any lane. */
static bool has_open_lane(const tfos__queue *queue)
{
    for (const tfos__taken_lane *lane = queue->lanes; lane != NULL; lane = lane->next) {
        if (!lane->drained) {
            return true;
        }
    }
    return false;
}

/* Whether somebody who wants one epoch comes when it is over. */
static bool is_past(const tfos__queue *queue, const tfos_feed_want *want)
{
    return want->split_epochs && want->epoch >= 0 && queue->marks_passed > (uint64_t)want->epoch;
}

/* Nothing is there at the moment: is that an end? Passes marks, but for that of the end. */
static bool at_end(tfos__queue *queue, const tfos_feed_want *want)
{
    while (!epoch_is_open(queue)) {
        if (queue->marks_received == queue->marks_passed) {
            return queue->ended;
        }
        if (want->split_epochs && (want->epoch < 0 || queue->marks_passed >= (uint64_t)want->epoch)) {
            return true;
        }
        queue->marks_passed++;
    }
    return false;
}

/* ---- the public functions ---- */

static const tfos_feed_want defaults = {.rows = 1, .epoch = -1, .timeout_ms = -1};

void tfos_feed_want_init(tfos_feed_want *want, size_t size)
{
    tfos__options_init(want, size, &defaults, sizeof defaults);
}

tfos_status tfos__feed_want_take(const tfos_feed_want *from, tfos_feed_want *out, tfos_error *error)
{
    return tfos__options_take("tfos_feed_want", from, &defaults, out, sizeof *out, error);
}

/* Tells the node, once, that somebody reads the queue. To ask for its schema is not to read it: the program that
 * prepares a dataset for others gets no rows. */
static tfos_status announce(tfos__intake *intake, tfos__queue *queue, tfos_error *error)
{
    tfos__packet packet;
    if (queue->announced) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__intake_pump(intake, error)); /* says best that the node is gone */
    tfos__packet_init(&packet, TFOS__PACKET_QUEUE);
    memcpy(packet.queue, queue->name, sizeof packet.queue);
    TFOS_TRY(tfos__intake_tell(intake, &packet, error));
    queue->announced = true;
    return TFOS_OK;
}

tfos_status tfos__feed_new(tfos__intake *intake, const char *queue, tfos_feed **out, tfos_error *error)
{
    size_t bytes = strlen(queue);
    if (bytes == 0 || bytes >= TFOS__QUEUE_BYTES || strchr(queue, ',') != NULL) {
        return tfos__fail(error, TFOS_INVALID, "the name of a queue has 1 to %d bytes and no comma, found '%s'",
                          TFOS__QUEUE_BYTES - 1, tfos__printable_of(queue, bytes).text);
    }
    tfos_feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL) {
        return tfos__fail_memory(error, sizeof *feed);
    }
    pthread_mutex_lock(&intake->lock);
    feed->intake = intake;
    feed->queue = tfos__intake_queue(intake, queue, error);
    pthread_mutex_unlock(&intake->lock);
    if (feed->queue == NULL) {
        free(feed);
        return TFOS_NO_MEMORY;
    }
    *out = feed;
    return TFOS_OK;
}

tfos_status tfos_feed_open(const char *queue, tfos_feed **out, tfos_error *error)
{
    tfos__intake *intake;
    TFOS_TRY(tfos__intake_get(&intake, error));
    return tfos__feed_new(intake, queue, out, error);
}

void tfos_feed_close(tfos_feed *feed)
{
    free(feed); /* the queue lives as long as the process: its rows are nobody else's */
}

static int64_t deadline_of(const tfos_feed_want *want)
{
    return want->timeout_ms < 0 ? INT64_MAX : tfos__clock_ms() + want->timeout_ms;
}

static tfos_status hand_out(tfos__queue *queue, tfos_batch **out, tfos_error *error)
{
    TFOS_TRY(tfos__batch_finish(queue->batch, queue->batch_rows, error));
    *out = queue->batch;
    queue->batch = NULL;
    queue->batch_rows = 0;
    return TFOS_OK;
}

static tfos_status slice(tfos__batch_pool *pool, const tfos_batch *from, int64_t first, int64_t count, tfos_batch **out,
                         tfos_error *error)
{
    tfos_batch *batch;
    TFOS_TRY(tfos__batch_take(pool, &batch, error));
    tfos_status status = TFOS_OK;
    for (size_t i = 0; status == TFOS_OK && i < tfos_schema_field_count(tfos_batch_schema(from)); i++) {
        status = tfos__vector_append(tfos__batch_vector(batch, i), tfos_batch_column(from, i), first, count, error);
    }
    if (status != TFOS_OK) {
        tfos_batch_free(batch);
        return status;
    }
    *out = batch;
    return TFOS_OK;
}

/* An earlier call wanted more rows and did not come to its end: this one gets the first of those that it has left. */
static tfos_status hand_out_some(tfos__queue *queue, int64_t rows, tfos_batch **out, tfos_error *error)
{
    tfos_batch *first = NULL;
    tfos_batch *rest = NULL;
    TFOS_TRY(tfos__batch_finish(queue->batch, queue->batch_rows, error));
    tfos_status status = slice(queue->pool, queue->batch, 0, rows, &first, error);
    status = status == TFOS_OK ? tfos__batch_finish(first, rows, error) : status;
    status =
        status == TFOS_OK ? slice(queue->pool, queue->batch, rows, queue->batch_rows - rows, &rest, error) : status;
    if (status != TFOS_OK) {
        tfos_batch_free(first);
        return status;
    }
    tfos_batch_free(queue->batch);
    queue->batch = rest;
    queue->batch_rows -= rows;
    *out = first;
    return TFOS_OK;
}

/* With the lock, which is given up while it waits. *hungry: this thread was counted among those that wait. */
static tfos_status next(tfos_feed *feed, const tfos_feed_want *want, bool *hungry, tfos_batch **out, tfos_error *error)
{
    tfos__intake *intake = feed->intake;
    tfos__queue *queue = feed->queue;
    int64_t deadline = deadline_of(want);
    if (is_past(queue, want)) {
        return TFOS_END;
    }
    if (queue->batch_rows > want->rows) {
        return hand_out_some(queue, want->rows, out, error);
    }
    for (;;) {
        step did;
        int64_t rows = queue->batch_rows;
        uint32_t seen = tfos__bell_read(intake->bell);
        TFOS_TRY(tfos__intake_pump(intake, error));
        TFOS_TRY(take(intake, queue, want, &did, error));
        if (did == STEP_FULL || queue->batch_rows == want->rows) {
            return hand_out(queue, out, error);
        }
        if (at_end(queue, want)) {
            if (queue->batch_rows > 0) {
                return hand_out(queue, out, error);
            }
            queue->marks_passed += queue->marks_received > queue->marks_passed ? 1 : 0;
            return TFOS_END;
        }
        deadline = queue->batch_rows > rows ? deadline_of(want) : deadline;
        TFOS_TRY(tfos__intake_look_at(intake, want, deadline, error));
        if (!*hungry) {
            *hungry = true;
            if (intake->hungry++ == 0) {
                tfos__bell_set_hungry(intake->bell, tfos__clock_ns());
                if (intake->node != NULL) {
                    tfos__bell_ring(intake->node);
                }
            }
        }
        tfos__intake_wait(intake, seen);
    }
}

tfos_status tfos_feed_next(tfos_feed *feed, const tfos_feed_want *want, tfos_batch **out, tfos_error *error)
{
    tfos__intake *intake = feed->intake;
    bool hungry = false;
    tfos_feed_want taken;
    TFOS_TRY(tfos__feed_want_take(want, &taken, error));
    want = &taken;
    if (want->rows <= 0) {
        return tfos__fail(error, TFOS_INVALID, "a batch has at least one row, found %lld", (long long)want->rows);
    }
    TFOS_TRY(tfos__intake_check_owner(intake, error));
    pthread_mutex_lock(&intake->lock);
    tfos_status status = announce(intake, feed->queue, error);
    status = status == TFOS_OK ? tfos__intake_enter(intake, &feed->queue->taking, want, error) : status;
    if (status == TFOS_OK) {
        status = next(feed, want, &hungry, out, error);
        if (hungry && --intake->hungry == 0) {
            tfos__bell_set_hungry(intake->bell, 0);
        }
        tfos__intake_exit(intake, &feed->queue->taking);
    }
    pthread_mutex_unlock(&intake->lock);
    return status;
}

tfos_status tfos_feed_schema(tfos_feed *feed, const tfos_feed_want *want, tfos_schema **out, tfos_error *error)
{
    tfos__intake *intake = feed->intake;
    tfos_feed_want taken;
    tfos_status status = tfos__feed_want_take(want, &taken, error);
    TFOS_TRY(status);
    want = &taken;
    int64_t deadline = deadline_of(want);
    TFOS_TRY(tfos__intake_check_owner(intake, error));
    pthread_mutex_lock(&intake->lock);
    while (status == TFOS_OK && feed->queue->schema == NULL) {
        uint32_t seen = tfos__bell_read(intake->bell);
        status = tfos__intake_pump(intake, error);
        status = status == TFOS_OK ? sweep(intake, feed->queue, error) : status;
        if (status == TFOS_OK && feed->queue->schema == NULL) {
            status = feed->queue->ended && !has_open_lane(feed->queue)
                         ? TFOS_END
                         : tfos__intake_look_at(intake, want, deadline, error);
        }
        if (status == TFOS_OK && feed->queue->schema == NULL) {
            tfos__intake_wait(intake, seen);
        }
    }
    if (status == TFOS_OK) {
        *out = tfos__schema_retain(feed->queue->schema);
    }
    pthread_mutex_unlock(&intake->lock);
    return status;
}

void tfos__feed_view(const tfos_feed *feed, tfos__queue_view *out)
{
    const tfos__queue *queue = feed->queue;
    pthread_mutex_lock(&feed->intake->lock);
    *out = (tfos__queue_view){.marks_received = queue->marks_received,
                              .marks_passed = queue->marks_passed,
                              .answers = queue->answer_capacity};
    pthread_mutex_unlock(&feed->intake->lock);
}

bool tfos_feed_ended(tfos_feed *feed)
{
    tfos__queue *queue = feed->queue;
    if (tfos__intake_check_owner(feed->intake, NULL) != TFOS_OK) {
        return false; /* whoever takes rows is told what is wrong */
    }
    pthread_mutex_lock(&feed->intake->lock);
    bool gone = tfos__intake_pump(feed->intake, NULL) == TFOS_IO;
    /* What is wrong with a lane is for whoever takes rows to say. */
    (void)(!queue->taking && sweep(feed->intake, queue, NULL) == TFOS_OK);
    bool ended = gone || (queue->ended && !has_open_lane(queue) && queue->batch_rows == 0);
    pthread_mutex_unlock(&feed->intake->lock);
    return ended;
}

int64_t tfos_feed_epochs(tfos_feed *feed)
{
    if (tfos__intake_check_owner(feed->intake, NULL) != TFOS_OK) {
        return 0;
    }
    pthread_mutex_lock(&feed->intake->lock);
    int64_t epochs = (int64_t)feed->queue->marks_passed;
    pthread_mutex_unlock(&feed->intake->lock);
    return epochs;
}

tfos_status tfos_feed_terminate(tfos_feed *feed, tfos_error *error)
{
    tfos__packet packet;
    tfos__packet_init(&packet, TFOS__PACKET_TERMINATE);
    memcpy(packet.queue, feed->queue->name, sizeof packet.queue);
    TFOS_TRY(tfos__intake_check_owner(feed->intake, error));
    pthread_mutex_lock(&feed->intake->lock);
    tfos_status status = tfos__intake_pump(feed->intake, error);
    tfos__intake_end(feed->intake, feed->queue, true);
    status = status == TFOS_OK ? tfos__intake_tell(feed->intake, &packet, error) : status;
    pthread_mutex_unlock(&feed->intake->lock);
    return status;
}

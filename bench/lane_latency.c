/* One row through an idle lane: `lane_latency [ROWS]` prints a line of JSON.
 *
 * Two processes, a lane there and a lane back. One feeds a row of 784 floats and a label, the other, asleep until its
 * bell rings, checks it, copies it out and feeds it back. What is shown is half of a round trip, in microseconds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "column/append.h"
#include "feed/entry.h"
#include "feed/lane.h"

enum { WARM_UP = 200 };

/* One end: the lane it feeds and the lane it takes from. */
typedef struct end {
    tfos__lane *out;
    tfos__lane *in;
    tfos__bell *bell;
    tfos__bell *other_bell;
    tfos_batch *batch;
    tfos_batch *copy;
    tfos__entry_views views;
} end;

static void need(tfos_status status, const tfos_error *error)
{
    if (status != TFOS_OK) {
        fprintf(stderr, "lane_latency: %s\n", error->message);
        exit(1);
    }
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static tfos_batch *make_row(void)
{
    static const char text[] = "{\"fields\": [{\"name\": \"image\", \"type\": \"float\", \"shape\": [784]},"
                               "{\"name\": \"label\", \"type\": \"int64\"}]}";
    tfos_error error;
    tfos_schema *schema;
    tfos_batch *batch;
    need(tfos_schema_from_json(text, strlen(text), &schema, &error), &error);
    need(tfos__batch_new(schema, &batch, &error), &error);
    tfos_schema_free(schema);
    tfos__vector *image = tfos__batch_vector(batch, 0);
    for (int i = 0; i < 784; i++) {
        need(tfos__vector_push_real(image->child, i, &error), &error);
    }
    need(tfos__vector_push_list(image, &error), &error);
    need(tfos__vector_push_int(tfos__batch_vector(batch, 1), 7, &error), &error);
    need(tfos__batch_finish(batch, 1, &error), &error);
    return batch;
}

static void feed(end *self, uint64_t row)
{
    tfos_error error;
    uint8_t *to;
    size_t bytes = tfos__entry_batch_bytes(self->batch, 0, 1);
    need(tfos__lane_reserve(self->out, bytes, &to, &error), &error);
    tfos__entry_write_batch(self->batch, 0, 1, row, to);
    need(tfos__lane_commit(self->out, bytes, 1, row + 1, &error), &error);
    tfos__bell_ring(self->other_bell);
}

static void take(end *self)
{
    tfos_error error;
    const uint8_t *from;
    size_t bytes;
    bool fed_out;
    tfos__entry entry;
    for (;;) {
        uint32_t seen = tfos__bell_read(self->bell);
        need(tfos__lane_peek(self->in, &from, &bytes, &fed_out, &error), &error);
        if (bytes > 0) {
            break;
        }
        tfos__bell_wait(self->bell, seen, -1);
    }
    need(tfos__entry_read(from, bytes, &entry, &error), &error);
    need(tfos__entry_read_batch(from, &entry, tfos_batch_schema(self->batch), &self->views, &error), &error);
    for (size_t i = 0; i < 2; i++) {
        tfos__vector *to = tfos__batch_vector(self->copy, i);
        tfos__vector_clear(to);
        need(tfos__vector_append(to, &self->views.vector[self->views.column[i]], 0, 1, &error), &error);
    }
    tfos__lane_take_rows(self->in, entry.rows);
    tfos__lane_release(self->in, entry.bytes);
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The answering process: until the lane is closed it gives back what it gets. */
static void answer(end *self, long rows)
{
    for (long i = 0; i < rows; i++) {
        take(self);
        feed(self, (uint64_t)i);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    long rows = argc > 1 ? atol(argv[1]) : 20000;
    tfos_error error;
    tfos__lane_id id = {0};
    tfos__lane *there;
    tfos__lane *back;
    end here = {.batch = make_row(), .copy = make_row()};
    if (rows < 1) {
        fprintf(stderr, "lane_latency [ROWS]: the number of rows must be 1 or more\n");
        return 2;
    }
    need(tfos__lane_new(1 << 20, &id, &there, &error), &error);
    need(tfos__lane_new(1 << 20, &id, &back, &error), &error);
    need(tfos__bell_new(&here.bell, &error), &error);
    need(tfos__bell_new(&here.other_bell, &error), &error);
    pid_t child = fork();
    if (child < 0) {
        perror("lane_latency: fork");
        return 1;
    }
    if (child == 0) {
        end other = {.out = back,
                     .in = there,
                     .bell = here.other_bell,
                     .other_bell = here.bell,
                     .batch = here.batch,
                     .copy = here.copy};
        answer(&other, rows + WARM_UP);
    }
    here.out = there;
    here.in = back;
    int64_t *took = calloc((size_t)rows, sizeof *took);
    if (took == NULL) {
        fprintf(stderr, "lane_latency: out of memory\n");
        return 1;
    }
    for (long i = -WARM_UP; i < rows; i++) {
        int64_t before = now_ns();
        feed(&here, (uint64_t)(i + WARM_UP));
        take(&here);
        if (i >= 0) {
            took[i] = now_ns() - before;
        }
    }
    waitpid(child, NULL, 0);
    qsort(took, (size_t)rows, sizeof *took, compare);
    printf("{\"rows\": %ld, \"median_us\": %.2f, \"p99_us\": %.2f, \"worst_us\": %.2f}\n", rows,
           (double)took[rows / 2] / 2000, (double)took[rows - 1 - rows / 100] / 2000, (double)took[rows - 1] / 2000);
    tfos__entry_views_reset(&here.views);
    tfos_batch_free(here.copy);
    tfos_batch_free(here.batch);
    tfos__lane_free(there);
    tfos__lane_free(back);
    tfos__bell_free(here.bell);
    tfos__bell_free(here.other_bell);
    free(took);
    return 0;
}

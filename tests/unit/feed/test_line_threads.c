/* A line between a task and a server: rows there and results back, whoever of the two is slow, fails or dies. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "column/batch.h"
#include "feed/line.h"
#include "helper_feed.h"
#include "helper_records.h"
#include "net/local.h"

enum { LANE = 64 << 10, BATCH_ROWS = 100 };

/* ---- a server that doubles numbers ---- */

typedef struct played {
    int listener;
    char name[TFOS__LOCAL_NAME_BYTES];
    uint8_t token[TFOS__KEY_BYTES];
    pthread_t thread;
    int64_t fails_behind; /* rows; negative: never */
    int64_t repeat;       /* how large a result is: a list of so many numbers; 0: a number */
    /* what became of it */
    tfos_status accepted;
    tfos_status ended;
    atomic_long answered; /* rows that have their results */
    int64_t rows;
    int64_t batches;
    char order[64];
} played;

static tfos_batch *doubled(const tfos_batch *batch, int64_t repeat)
{
    tfos_schema *schema = repeat > 0 ? helper_schema_with("n", TFOS_TYPE_INT64, TFOS_SHAPE_FIXED, (int32_t)repeat)
                                     : helper_number_schema();
    tfos_batch *out;
    const int64_t *numbers = tfos_batch_column(batch, 0)->data;
    int64_t rows = tfos_batch_rows(batch);
    assert_int_equal(tfos__batch_new(schema, &out, NULL), TFOS_OK);
    tfos__vector *to = tfos__batch_vector(out, 0);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < (repeat > 0 ? repeat : 1); k++) {
            assert_int_equal(tfos__vector_push_int(repeat > 0 ? to->child : to, 2 * numbers[i], NULL), TFOS_OK);
        }
        if (repeat > 0) {
            assert_int_equal(tfos__vector_push_list(to, NULL), TFOS_OK);
        }
    }
    assert_int_equal(tfos__batch_finish(out, rows, NULL), TFOS_OK);
    tfos_schema_free(schema);
    return out;
}

static tfos_status serve(played *self, tfos__line *line)
{
    tfos_batch *batch;
    tfos_status status;
    snprintf(self->order, sizeof self->order, "%s", tfos__line_order(line));
    while ((status = tfos__line_next(line, BATCH_ROWS, &batch, NULL)) == TFOS_OK) {
        self->rows += tfos_batch_rows(batch);
        self->batches++;
        tfos_batch *results = doubled(batch, self->repeat);
        tfos_batch_free(batch);
        status = tfos__line_answer(line, results, NULL);
        tfos_batch_free(results);
        self->answered = (long)self->rows;
        if (status == TFOS_OK && self->fails_behind >= 0 && self->rows >= self->fails_behind) {
            tfos_error why;
            status = tfos__fail(&why, TFOS_MISMATCH, "the numbers have no end");
            tfos__line_fail(line, &why);
        }
        if (status != TFOS_OK) {
            return status;
        }
    }
    return status;
}

static void *run(void *context)
{
    played *self = context;
    tfos__line *line;
    int socket = -1;
    while ((socket = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        usleep(1000);
    }
    self->accepted = tfos__line_accept(socket, self->token, LANE, &line, NULL);
    if (self->accepted == TFOS_OK) {
        self->ended = serve(self, line);
        tfos__line_close(line);
    }
    return NULL;
}

static void listen_for_tasks(played *self)
{
    *self = (played){.fails_behind = -1};
    memset(self->token, 7, sizeof self->token);
    assert_int_equal(tfos__local_listen("test", self->name, &self->listener, NULL), TFOS_OK);
}

static void begin(played *self)
{
    assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
}

static void end(played *self)
{
    pthread_join(self->thread, NULL);
    close(self->listener);
}

/* ---- a task ---- */

typedef struct task {
    int64_t rows; /* of its partition */
    int64_t row;  /* the next */
    int64_t results;
    int64_t step;                 /* rows of a batch */
    const played *until_answered; /* a server that is to have answered all rows before it hears that they are all */
    atomic_bool interrupted;
    tfos_pump *pump;
    tfos_schema *schema;
} task;

static tfos_status next_numbers(void *context, int64_t patience_ms, int64_t held_bytes, tfos_batch **out,
                                tfos_error *error)
{
    task *self = context;
    (void)patience_ms, (void)held_bytes, (void)error;
    int64_t count = tfos__min_i64(self->step, self->rows - self->row);
    if (count > 0) {
        *out = helper_numbers(self->schema, self->row, count);
    }
    self->row += count;
    if (self->until_answered == NULL || count > 0) {
        return self->row < self->rows || self->until_answered != NULL ? TFOS_OK : TFOS_END;
    }
    while (self->until_answered->answered < self->rows) {
        usleep(100);
    }
    return TFOS_END;
}

static bool is_interrupted(void *context)
{
    return ((task *)context)->interrupted;
}

static tfos_status open_task(task *self, const played *at, uint8_t token, tfos_error *error)
{
    tfos_pump_source source;
    tfos__line_options options = {.name = at->name,
                                  .order = "double",
                                  .order_bytes = 6,
                                  .partition = 3,
                                  .batch_bytes = 4096,
                                  .patience = {is_interrupted, self}};
    tfos__sink *sink;
    memset(options.token, token, sizeof options.token);
    self->schema = helper_number_schema();
    TFOS_TRY(tfos__line_open(&options, &sink, error));
    tfos_pump_source_init(&source, sizeof source);
    source.context = self;
    source.next = next_numbers;
    return tfos__pump_new(sink, NULL, &source, &self->pump, error);
}

/* Everything: END, or how it failed. Numbers must be doubled, in their order. */
static tfos_status work(task *self, tfos_error *error)
{
    tfos_batch *batch;
    tfos_status status;
    while ((status = tfos_pump_next(self->pump, &batch, error)) == TFOS_OK) {
        const tfos_vector *column = tfos_batch_column(batch, 0);
        const tfos_vector *values = column->child != NULL ? column->child : column;
        for (int64_t i = 0; i < values->length; i++) {
            int64_t repeat = values->length / tfos_batch_rows(batch);
            assert_int_equal(((const int64_t *)values->data)[i], 2 * (self->results + i / repeat));
        }
        self->results += tfos_batch_rows(batch);
        tfos_batch_free(batch);
    }
    return status;
}

static void leave(task *self)
{
    tfos_pump_close(self->pump);
    tfos_schema_free(self->schema);
}

static size_t resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*s %ld", &pages), 1);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- tests ---- */

static void test_each_row_has_its_result(void **state)
{
    static const int64_t sizes[] = {0, 1, 99, 100, 101, 20000};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        played server;
        task one = {.rows = sizes[i], .step = 70};
        tfos_error error = {0};
        listen_for_tasks(&server);
        begin(&server);
        assert_int_equal(open_task(&one, &server, 7, &error), TFOS_OK);
        assert_int_equal(work(&one, &error), TFOS_END);
        assert_int_equal(one.results, sizes[i]);
        leave(&one);
        end(&server);
        if (sizes[i] > 0) { /* a task without rows may leave before anybody has heard what it wants */
            assert_int_equal(server.ended, TFOS_END);
            assert_string_equal(server.order, "double");
        }
        assert_int_equal(server.rows, sizes[i]);
        /* Batches are as large as the server wants, whatever the task put together. */
        assert_int_equal(server.batches, (sizes[i] + BATCH_ROWS - 1) / BATCH_ROWS);
    }
}

static void pin(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

/* A task that has all of its results says that its rows have ended, and leaves. With one processor for both, the server
 * mostly gets to look when the task has done both. */
static void test_a_task_that_leaves_with_its_last_word(void **state)
{
    cpu_set_t before;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    pin(sched_getcpu());
    for (int i = 0; i < 100; i++) {
        played server;
        task one = {.rows = BATCH_ROWS, .step = BATCH_ROWS, .until_answered = &server};
        tfos_error error = {0};
        listen_for_tasks(&server);
        begin(&server);
        assert_int_equal(open_task(&one, &server, 7, &error), TFOS_OK);
        assert_int_equal(work(&one, &error), TFOS_END);
        leave(&one);
        end(&server);
        assert_int_equal(server.ended, TFOS_END);
    }
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* Neither waits for the other when both lanes are full. */
static void test_results_that_are_much_larger(void **state)
{
    (void)state;
    played server;
    task one = {.rows = 5000, .step = 5000};
    tfos_error error = {0};
    listen_for_tasks(&server);
    server.repeat = 500;
    begin(&server);
    assert_int_equal(open_task(&one, &server, 7, &error), TFOS_OK);
    assert_int_equal(work(&one, &error), TFOS_END);
    assert_int_equal(one.results, 5000);
    leave(&one);
    end(&server);
}

/* Results may be larger than what a task should hold: the rest of its rows waits. */
static void test_results_that_are_too_many_to_keep(void **state)
{
    (void)state;
    played server;
    task one = {.rows = 60000, .step = 60000};
    tfos_error error = {0};
    size_t most_bytes = 0;
    tfos_batch *batch;
    tfos_status status;
    listen_for_tasks(&server);
    server.repeat = 500; /* 240 MB in all */
    begin(&server);
    assert_int_equal(open_task(&one, &server, 7, &error), TFOS_OK);
    size_t before = resident_bytes();
    while ((status = tfos_pump_next(one.pump, &batch, &error)) == TFOS_OK) {
        assert_int_equal(((const int64_t *)tfos_batch_column(batch, 0)->child->data)[0], 2 * one.results);
        one.results += tfos_batch_rows(batch);
        tfos_batch_free(batch);
        size_t now = resident_bytes();
        most_bytes = now > before + most_bytes ? now - before : most_bytes;
    }
    assert_int_equal(status, TFOS_END);
    assert_int_equal(one.results, 60000);
    assert_true(HELPER_SANITIZED || most_bytes < 120 << 20);
    leave(&one);
    end(&server);
}

/* A server has said all, and is gone before anybody reads it. */
static void test_a_server_that_has_left(void **state)
{
    static const int64_t failures[] = {-1, 50};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        played server;
        tfos_error error = {0};
        tfos__sink *sink;
        tfos_batch *results;
        tfos_schema *schema = helper_number_schema();
        tfos_batch *batch = helper_numbers(schema, 0, 150);
        tfos__line_options options = {.name = server.name, .order = "", .batch_bytes = 1 << 20};
        listen_for_tasks(&server);
        server.fails_behind = failures[i];
        begin(&server);
        memset(options.token, 7, sizeof options.token);
        assert_int_equal(tfos__line_open(&options, &sink, &error), TFOS_OK);
        assert_int_equal(sink->functions->put_batch(sink, batch, &error), TFOS_OK);
        assert_int_equal(sink->functions->exhaust(sink, &error), TFOS_OK);
        end(&server);
        int64_t rows = 0;
        tfos_status status;
        while ((status = sink->functions->take_results(sink, TFOS_WAIT_FOR_RESULTS, &results, &error)) == TFOS_OK) {
            rows += tfos_batch_rows(results);
            tfos_batch_free(results);
        }
        assert_int_equal(rows, failures[i] < 0 ? 150 : 100);
        assert_int_equal(status, failures[i] < 0 ? TFOS_END : TFOS_MISMATCH);
        sink->functions->close(sink);
        tfos_batch_free(batch);
        tfos_schema_free(schema);
    }
}

static void test_strangers_are_refused(void **state)
{
    (void)state;
    played server;
    task one = {.rows = 1, .step = 1};
    tfos_error error = {0};
    listen_for_tasks(&server);
    begin(&server);
    assert_int_equal(open_task(&one, &server, 8, &error), TFOS_PERMISSION);
    helper_expect_in(error.message, "it does not belong to this application");
    leave(&one);
    end(&server);
    assert_int_equal(server.accepted, TFOS_PERMISSION);
    one = (task){.rows = 1, .step = 1};
    assert_int_equal(open_task(&one, &server, 7, &error), TFOS_NOT_FOUND); /* it does not listen any more */
    helper_expect_in(error.message, "does not listen any more");
    leave(&one);
}

/* What was computed before a failure arrives before it. */
static void test_a_failure_is_told(void **state)
{
    (void)state;
    played server;
    task one = {.rows = 1 << 20, .step = 1000};
    tfos_error error = {0};
    listen_for_tasks(&server);
    server.fails_behind = 1000;
    begin(&server);
    assert_int_equal(open_task(&one, &server, 7, &error), TFOS_OK);
    assert_int_equal(work(&one, &error), TFOS_MISMATCH);
    assert_string_equal(error.message, "the numbers have no end");
    assert_int_equal(one.results, 1000);
    leave(&one);
    end(&server);
}

static void test_a_task_that_leaves(void **state)
{
    (void)state;
    played server;
    task one = {.rows = 1 << 20, .step = 1000};
    tfos_error error = {0};
    tfos_batch *batch;
    listen_for_tasks(&server);
    begin(&server);
    assert_int_equal(open_task(&one, &server, 7, &error), TFOS_OK);
    assert_int_equal(tfos_pump_next(one.pump, &batch, &error), TFOS_OK);
    tfos_batch_free(batch);
    leave(&one);
    end(&server);
    assert_int_equal(server.ended, TFOS_CANCELLED);
    assert_true(server.rows < 1 << 20);
}

static void test_a_task_that_is_interrupted(void **state)
{
    (void)state;
    played server;
    task one = {.rows = 50, .step = 10};
    tfos_error error = {0};
    tfos__line *line;
    listen_for_tasks(&server);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    close(ends[0]);
    assert_int_equal(tfos__line_accept(ends[1], server.token, LANE, &line, &error), TFOS_IO); /* it went at once */
    begin(&server);
    assert_int_equal(open_task(&one, &server, 7, &error), TFOS_OK);
    one.interrupted = true;
    assert_int_equal(work(&one, &error), TFOS_CANCELLED);
    leave(&one);
    end(&server);
}

static void test_a_server_that_is_killed(void **state)
{
    (void)state;
    played server;
    task one = {.rows = 1 << 24, .step = 1000};
    tfos_error error = {0};
    listen_for_tasks(&server);
    pid_t child = fork();
    if (child == 0) {
        tfos__line *line;
        tfos_batch *batch;
        int socket;
        while ((socket = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
            usleep(1000);
        }
        if (tfos__line_accept(socket, server.token, LANE, &line, NULL) == TFOS_OK &&
            tfos__line_next(line, 10, &batch, NULL) == TFOS_OK) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    close(server.listener);
    assert_int_equal(open_task(&one, &server, 7, &error), TFOS_OK);
    int64_t since = tfos__clock_ms();
    assert_int_equal(work(&one, &error), TFOS_IO);
    helper_expect_in(error.message, "the process that computes the results is gone");
    assert_true(tfos__clock_ms() - since < 5000);
    leave(&one);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
}

static void test_a_row_that_has_no_room(void **state)
{
    (void)state;
    played server;
    task one = {.rows = 1, .step = 1};
    tfos_error error = {0};
    tfos__sink *sink;
    tfos__line_options options = {.name = server.name, .order = "", .batch_bytes = 4096, .partition = 3};
    tfos_schema *schema = helper_schema_with("wide", TFOS_TYPE_INT64, TFOS_SHAPE_FIXED, LANE / 8);
    tfos_batch *batch;
    (void)one;
    listen_for_tasks(&server);
    begin(&server);
    memset(options.token, 7, sizeof options.token);
    assert_int_equal(tfos__line_open(&options, &sink, &error), TFOS_OK);
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    tfos__vector *column = tfos__batch_vector(batch, 0);
    assert_int_equal(tfos__vector_push_zeros(column->child, LANE / 8, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_push_list(column, NULL), TFOS_OK);
    assert_int_equal(tfos__batch_finish(batch, 1, NULL), TFOS_OK);
    assert_int_equal(sink->functions->put_batch(sink, batch, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "partition 3");
    helper_expect_in(error.message, "'wide'");
    tfos_batch_free(batch);
    tfos_schema_free(schema);
    sink->functions->close(sink);
    end(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_has_its_result),
        cmocka_unit_test(test_a_task_that_leaves_with_its_last_word),
        cmocka_unit_test(test_results_that_are_much_larger),
        cmocka_unit_test(test_results_that_are_too_many_to_keep),
        cmocka_unit_test(test_a_server_that_has_left),
        cmocka_unit_test(test_strangers_are_refused),
        cmocka_unit_test(test_a_failure_is_told),
        cmocka_unit_test(test_a_task_that_leaves),
        cmocka_unit_test(test_a_task_that_is_interrupted),
        cmocka_unit_test(test_a_server_that_is_killed),
        cmocka_unit_test(test_a_row_that_has_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

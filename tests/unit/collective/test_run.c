/* Calls of several processes, over a board, and over links between several hosts, each of which has a board of its own.
 * Each worker can make the tensors of all, from the seed, and so knows by itself what must come out: bit for bit on one
 * host; with several, whole numbers bit for bit, and floating ones within the bound that the order of operations
 * leaves, and the same bits on all. test_run_threads.c has them as threads of one process, which ThreadSanitizer sees
 * through. */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "collective/reduce.h"
#include "collective/run.h"
#include "collective/run_state.h"
#include "helper_random.h"

enum { RANKS_MOST = 8, PARTS_MOST = 12, LIMIT_MS = 60000 };

/* ---- processes ---- */

typedef struct worker {
    size_t rank;
    size_t ranks;
    uint64_t seed;
    int64_t deadline_ms;
    tfos__board *board;
    const tfos__hosts *hosts;
    tfos__far *far;
    tfos__runner *runner;
    uint64_t hash; /* of everything that has come out */
} worker;

/* Which worker is on which host: "0011" are two hosts with two workers each. */
typedef const char *topology;

static const char *name(void *context, size_t rank)
{
    (void)context;
    static const char *const names[RANKS_MOST] = {"worker:0", "worker:1", "worker:2", "worker:3",
                                                  "worker:4", "worker:5", "worker:6", "worker:7"};
    return names[rank];
}

/* A stage that was waited for too long. */
static tfos_status look(void *context, size_t missing, tfos_error *error)
{
    const worker *self = context;
    if (tfos__clock_ms() > self->deadline_ms) {
        return tfos__fail(error, TFOS_IO, "%s does not come", name(NULL, missing));
    }
    return TFOS_OK;
}

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: rank %zu of %zu, seed %llu: %s\n", __FILE__, __LINE__, self->rank, self->ranks,    \
                    (unsigned long long)self->seed, #condition);                                                       \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

typedef void story(worker *self);

/* What all workers share. */
typedef struct world {
    tfos__hosts hosts;
    tfos__board *boards[RANKS_MOST];
    int out[RANKS_MOST][TFOS__FAR_LINKS_MOST]; /* of each host, the sockets of its links */
    int in[RANKS_MOST][TFOS__FAR_LINKS_MOST];
    uint64_t seed;
    int64_t patience_ms;
    story *tell;
} world;

/* What a worker is started with. */
typedef struct start {
    const world *in;
    size_t rank;
} start;

static bool on_one_host(const void *context, size_t a, size_t b)
{
    const char *hosts = context;
    return hosts[a] == hosts[b];
}

static void make_world(world *it, topology hosts, size_t slot_bytes)
{
    assert_int_equal(tfos__hosts_init(&it->hosts, strlen(hosts), on_one_host, hosts, NULL), TFOS_OK);
    size_t far_bytes = it->hosts.count > 1 ? tfos__runner_far_bytes(it->hosts.size) : 0;
    for (size_t host = 0; host < it->hosts.count; host++) {
        size_t mates = tfos__hosts_mates(&it->hosts, host);
        assert_int_equal(tfos__board_new(mates, slot_bytes, far_bytes, &it->boards[host], NULL), TFOS_OK);
        for (size_t link = 0; link < tfos__far_link_count(it->hosts.count); link++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
            it->out[host][link] = pair[0];
            it->in[tfos__far_host_behind(it->hosts.count, host, link)][link] = pair[1];
        }
    }
}

static void free_world(world *it)
{
    for (size_t host = 0; host < it->hosts.count; host++) {
        tfos__board_free(it->boards[host]);
    }
    tfos__hosts_reset(&it->hosts);
}

static tfos__far *open_links(const world *it, size_t host)
{
    tfos__far *far;
    tfos__dial *out[TFOS__FAR_LINKS_MOST];
    tfos__dial *in[TFOS__FAR_LINKS_MOST];
    const tfos__far_options options = {
        .size = it->hosts.size, .hosts = it->hosts.count, .host = host, .leaders = it->hosts.leaders, .name = name};
    for (size_t link = 0; link < tfos__far_link_count(it->hosts.count); link++) {
        if (tfos__dial_adopt(it->out[host][link], NULL, NULL, "a host behind", NULL, &out[link], NULL) != TFOS_OK ||
            tfos__dial_adopt(it->in[host][link], NULL, NULL, "a host before", NULL, &in[link], NULL) != TFOS_OK) {
            _exit(2);
        }
    }
    if (tfos__far_new(&options, out, in, &far, NULL) != TFOS_OK) {
        _exit(2);
    }
    return far;
}

static void *run_worker(void *context)
{
    const start *given = context;
    const world *in = given->in;
    size_t host = in->hosts.host_of[given->rank];
    bool first = in->hosts.leaders[host] == given->rank;
    worker self = {.rank = given->rank,
                   .ranks = in->hosts.size,
                   .seed = in->seed,
                   .deadline_ms = tfos__clock_ms() + in->patience_ms,
                   .board = in->boards[host],
                   .hosts = &in->hosts,
                   .far = in->hosts.count > 1 && first ? open_links(in, host) : NULL};
    const tfos__runner_options options = {.board = self.board,
                                          .hosts = self.hosts,
                                          .rank = given->rank,
                                          .far = self.far,
                                          .name = name,
                                          .look = look,
                                          .context = &self};
    if (tfos__runner_new(&options, &self.runner, NULL) != TFOS_OK) {
        _exit(2);
    }
    in->tell(&self);
    tfos__runner_free(self.runner);
    tfos__far_free(self.far);
    return NULL;
}

#ifdef WITH_THREADS
typedef pthread_t started;

static started begin(start *given)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_worker, given), 0);
    return thread;
}

static bool end(started thread)
{
    return pthread_join(thread, NULL) == 0;
}

/* They share their sockets. */
static void leave_links(const world *it)
{
    (void)it;
}
#else
typedef pid_t started;

/* The sockets of a host are its first worker's; all other processes close them. */
static void close_links(const world *it, size_t except_host)
{
    for (size_t host = 0; host < it->hosts.count; host++) {
        for (size_t link = 0; host != except_host && link < tfos__far_link_count(it->hosts.count); link++) {
            close(it->out[host][link]);
            close(it->in[host][link]);
        }
    }
}

static void leave_links(const world *it)
{
    close_links(it, SIZE_MAX);
}

static started begin(start *given)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        size_t host = given->in->hosts.host_of[given->rank];
        close_links(given->in, given->in->hosts.leaders[host] == given->rank ? host : SIZE_MAX);
        run_worker(given);
        _exit(0);
    }
    return pid;
}

static bool end(started pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#endif

/* Has the workers tell a story, and expects that of each. */
static void run_on(topology hosts, size_t slot_bytes, uint64_t seed, int64_t patience_ms, story *tell)
{
    world it = {.seed = seed, .patience_ms = patience_ms, .tell = tell};
    size_t ranks = strlen(hosts);
    started workers[RANKS_MOST];
    start starts[RANKS_MOST];
    make_world(&it, hosts, slot_bytes);
    for (size_t rank = 0; rank < ranks; rank++) {
        starts[rank] = (start){&it, rank};
        workers[rank] = begin(&starts[rank]);
    }
    leave_links(&it);
    bool well = true;
    for (size_t rank = 0; rank < ranks; rank++) {
        well = end(workers[rank]) && well;
    }
    free_world(&it);
    assert_true(well);
}

/* … so many of them, on one host. */
static void run_together(size_t ranks, size_t slot_bytes, uint64_t seed, int64_t patience_ms, story *tell)
{
    char hosts[RANKS_MOST + 1] = "";
    memset(hosts, '0', ranks);
    run_on(hosts, slot_bytes, seed, patience_ms, tell);
}

/* ---- tensors that everybody can make ---- */

static uint64_t mix(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t state = seed * 1000003 + a * 8191 + b;
    return helper_draw(&state, UINT64_MAX);
}

static void fill(tfos_element element, size_t count, uint64_t seed, void *at)
{
    for (size_t i = 0; i < count; i++) {
        float number = ((float)helper_draw(&seed, 20001) - 10000.f) / 64.f;
        switch (element) {
        case TFOS_ELEMENT_FLOAT32:
            ((float *)at)[i] = number;
            break;
        case TFOS_ELEMENT_FLOAT64:
            ((double *)at)[i] = (double)number * 1.000001;
            break;
        case TFOS_ELEMENT_INT32:
            ((int32_t *)at)[i] = (int32_t)helper_draw(&seed, UINT64_C(1) << 32);
            break;
        case TFOS_ELEMENT_INT64:
            ((int64_t *)at)[i] = (int64_t)helper_draw(&seed, UINT64_MAX);
            break;
        default:
            tfos__element_convert(TFOS_ELEMENT_FLOAT32, &number, 1, element, (uint16_t *)at + i);
        }
    }
}

/* A call that was drawn: the same for all workers, but for the rows of what is gathered. */
typedef struct drawn {
    size_t count;
    tfos_element element[PARTS_MOST];
    tfos_merge merge[PARTS_MOST];
    int64_t rows[PARTS_MOST];
    int64_t width[PARTS_MOST];
    size_t root;
    double weight[RANKS_MOST];
    bool joined[RANKS_MOST];
    tfos_element wire;
} drawn;

static bool is_whole(tfos_element element)
{
    return element == TFOS_ELEMENT_INT32 || element == TFOS_ELEMENT_INT64;
}

static bool is_gathered(tfos_merge merge)
{
    return merge == TFOS_MERGE_GATHER || merge == TFOS_MERGE_GATHER_WEIGHTED;
}

static drawn draw_call(uint64_t seed, size_t ranks, uint64_t number)
{
    uint64_t random = mix(seed, number, 77);
    drawn it = {.count = helper_draw(&random, PARTS_MOST + 1)};
    for (size_t i = 0; i < it.count; i++) {
        it.element[i] = (tfos_element)helper_draw(&random, TFOS_ELEMENT_INT64 + 1);
        it.merge[i] = (tfos_merge)helper_draw(&random, TFOS_MERGE_GATHER_WEIGHTED + 1);
        if (is_whole(it.element[i]) && it.merge[i] != TFOS_MERGE_BROADCAST && it.merge[i] != TFOS_MERGE_GATHER &&
            it.merge[i] != TFOS_MERGE_MIN && it.merge[i] != TFOS_MERGE_MAX) {
            it.merge[i] = TFOS_MERGE_SUM;
        }
        it.rows[i] = (int64_t)helper_draw(&random, helper_draw(&random, 3) == 0 ? 3000 : 30);
        it.width[i] = (int64_t)helper_draw(&random, 9);
    }
    it.root = helper_draw(&random, ranks);
    it.wire = (tfos_element[]){TFOS_ELEMENT_FLOAT32, TFOS_ELEMENT_FLOAT16, TFOS_ELEMENT_BFLOAT16}[number % 3];
    for (size_t rank = 0; rank < ranks; rank++) {
        it.weight[rank] = helper_draw(&random, 5) == 0 ? 0 : (double)(1 + helper_draw(&random, 200));
    }
    return it;
}

/* Rows of a part that a worker has. */
static int64_t rows_of(const drawn *it, uint64_t seed, uint64_t number, size_t part, size_t rank)
{
    uint64_t random = mix(seed, number * 100 + part, rank);
    return is_gathered(it->merge[part]) ? (int64_t)helper_draw(&random, (uint64_t)it->rows[part] + 1) : it->rows[part];
}

static uint8_t *tensor_of(const drawn *it, uint64_t seed, uint64_t number, size_t part, size_t rank, size_t *count)
{
    *count = (size_t)(rows_of(it, seed, number, part, rank) * it->width[part]);
    uint8_t *at = malloc(*count * 8 + 8);
    fill(it->element[part], *count, mix(seed, number * 100 + part, rank + 1000), at);
    return at;
}

/* ---- what must come out ---- */

static double scale_of(const drawn *it, size_t ranks, tfos_merge merge, size_t rank)
{
    double all = 0;
    size_t contributors = 0;
    for (size_t r = 0; r < ranks; r++) {
        all += it->joined[r] ? 0 : it->weight[r];
        contributors += !it->joined[r] && it->weight[r] != 0 ? 1 : 0;
    }
    return merge == TFOS_MERGE_MEAN                                                   ? 1.0 / (double)contributors
           : merge == TFOS_MERGE_WEIGHTED_MEAN || merge == TFOS_MERGE_GATHER_WEIGHTED ? it->weight[rank] / all
                                                                                      : 1;
}

static bool is_sum(tfos_merge merge)
{
    return merge == TFOS_MERGE_SUM || merge == TFOS_MERGE_MEAN || merge == TFOS_MERGE_WEIGHTED_MEAN;
}

static double number_at(tfos_element element, const void *at, size_t i)
{
    float number;
    switch (element) {
    case TFOS_ELEMENT_FLOAT32:
        return (double)((const float *)at)[i];
    case TFOS_ELEMENT_FLOAT64:
        return ((const double *)at)[i];
    default:
        tfos__element_convert(element, (const uint16_t *)at + i, 1, TFOS_ELEMENT_FLOAT32, &number);
        return (double)number;
    }
}

/* How much smaller than a number the next one of its type is; of what travels, and of what comes out. */
static double step_of(tfos_element element)
{
    return element == TFOS_ELEMENT_FLOAT64   ? 0x1p-52
           : element == TFOS_ELEMENT_FLOAT32 ? 0x1p-23
           : element == TFOS_ELEMENT_FLOAT16 ? 0x1p-10
                                             : 0x1p-7;
}

/* A sum whose terms are added up in another order is off by a few steps of the sum of their magnitudes. */
static void expect_near(const worker *self, const drawn *it, size_t part, size_t count, const tfos__operand *operands,
                        size_t used, const void *expected, const void *found)
{
    tfos_element element = it->element[part];
    double step = step_of(element);
    double way = element == TFOS_ELEMENT_FLOAT64 ? 0 : step_of(it->wire);
    for (size_t i = 0; i < count; i++) {
        double magnitude = 0;
        for (size_t k = 0; k < used; k++) {
            magnitude += fabs(number_at(element, operands[k].at, i) * operands[k].scale);
        }
        double bound = magnitude * (step + (double)self->hosts->count * way + (double)used * 0x1p-22);
        EXPECT(fabs(number_at(element, expected, i) - number_at(element, found, i)) <= bound);
    }
}

static void expect_reduced(const worker *self, const drawn *it, uint64_t number, size_t part, const void *found)
{
    tfos__operand operands[RANKS_MOST];
    uint8_t *tensors[RANKS_MOST];
    size_t used = 0;
    size_t count = 0;
    tfos_merge merge = it->merge[part];
    size_t element_bytes = tfos_element_bytes(it->element[part]);
    for (size_t rank = 0; rank < self->ranks; rank++) {
        tensors[rank] = tensor_of(it, self->seed, number, part, rank, &count);
        if (!it->joined[rank] && it->weight[rank] != 0) {
            operands[used++] = (tfos__operand){tensors[rank], scale_of(it, self->ranks, merge, rank)};
        }
    }
    uint8_t *expected = malloc(count * 8 + 8);
    if (merge == TFOS_MERGE_BROADCAST) {
        memcpy(expected, tensors[it->root], count * element_bytes);
    } else {
        tfos__reduce(merge == TFOS_MERGE_MIN   ? TFOS__REDUCE_LEAST
                     : merge == TFOS_MERGE_MAX ? TFOS__REDUCE_GREATEST
                                               : TFOS__REDUCE_SUM,
                     it->element[part], operands, used, count, it->element[part], expected);
    }
    if (self->hosts->count == 1 || is_whole(it->element[part]) || !is_sum(merge)) {
        EXPECT(memcmp(expected, found, count * element_bytes) == 0);
    } else {
        expect_near(self, it, part, count, operands, used, expected, found);
    }
    for (size_t rank = 0; rank < self->ranks; rank++) {
        free(tensors[rank]);
    }
    free(expected);
}

static void expect_gathered(const worker *self, const drawn *it, uint64_t number, size_t part, const uint64_t *rows,
                            const uint8_t *found)
{
    size_t at = 0;
    size_t element_bytes = tfos_element_bytes(it->element[part]);
    for (size_t rank = 0; rank < self->ranks; rank++) {
        size_t count;
        uint8_t *tensor = tensor_of(it, self->seed, number, part, rank, &count);
        bool left_out = it->joined[rank] || it->weight[rank] == 0;
        EXPECT(rows[rank] == (left_out ? 0 : (uint64_t)rows_of(it, self->seed, number, part, rank)));
        if (!left_out) {
            const tfos__operand operand = {tensor, scale_of(it, self->ranks, it->merge[part], rank)};
            uint8_t *expected = malloc(count * 8 + 8);
            tfos__reduce(TFOS__REDUCE_SUM, it->element[part], &operand, 1, count, it->element[part], expected);
            EXPECT(memcmp(expected, found + at, count * element_bytes) == 0);
            at += count * element_bytes;
            free(expected);
        }
        free(tensor);
    }
}

/* ---- a call of this worker ---- */

static void make_call(worker *self, const drawn *it, uint64_t number)
{
    tfos_part parts[PARTS_MOST];
    uint8_t *inputs[PARTS_MOST];
    uint8_t *outputs[PARTS_MOST];
    tfos_error error = {0};
    tfos__call call;
    tfos_call_result outcome;
    for (size_t i = 0; i < it->count; i++) {
        size_t count;
        inputs[i] = tensor_of(it, self->seed, number, i, self->rank, &count);
        outputs[i] = (number + i) % 2 == 0 ? inputs[i] : malloc(count * 8 + 8);
        parts[i] = (tfos_part){.element = it->element[i],
                               .merge = it->merge[i],
                               .dimensions = 2,
                               .shape = {rows_of(it, self->seed, number, i, self->rank), it->width[i]},
                               .input = inputs[i],
                               .output = is_gathered(it->merge[i]) ? NULL : outputs[i]};
    }
    EXPECT(tfos__call_init(&call, parts, it->count, "here", it->wire, &error) == TFOS_OK);
    tfos_status status = tfos__runner_call(self->runner, &call, it->weight[self->rank], it->root, &outcome, &error);
    if (status != TFOS_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    EXPECT(status == TFOS_OK);
    size_t gathered = 0;
    for (size_t i = 0; i < it->count; i++) {
        if (is_gathered(it->merge[i])) {
            expect_gathered(self, it, number, i, outcome.rows + gathered * self->ranks, outcome.gathered[gathered]);
            gathered++;
        } else {
            expect_reduced(self, it, number, i, outputs[i]);
        }
    }
    EXPECT(gathered == outcome.gathered_count);
    for (size_t i = 0; i < it->count; i++) {
        size_t bytes = (size_t)(it->rows[i] * it->width[i]) * tfos_element_bytes(it->element[i]);
        self->hash = is_gathered(it->merge[i]) ? self->hash : tfos__hash_from(self->hash, outputs[i], bytes);
        free(outputs[i] != inputs[i] ? outputs[i] : NULL);
        free(inputs[i]);
    }
    tfos_call_result_reset(&outcome);
    tfos__call_reset(&call);
}

/* Everybody has got the same bits. */
static void expect_the_same(worker *self)
{
    int64_t least = (int64_t)self->hash;
    int64_t greatest = (int64_t)self->hash;
    const tfos_part parts[] = {
        {.element = TFOS_ELEMENT_INT64, .merge = TFOS_MERGE_MIN, .input = &least, .output = &least},
        {.element = TFOS_ELEMENT_INT64, .merge = TFOS_MERGE_MAX, .input = &greatest, .output = &greatest}};
    tfos__call call;
    tfos_call_result outcome;
    EXPECT(tfos__call_init(&call, parts, 2, "", TFOS_ELEMENT_FLOAT32, NULL) == TFOS_OK);
    EXPECT(tfos__runner_call(self->runner, &call, 1, 0, &outcome, NULL) == TFOS_OK);
    EXPECT(least == greatest && least == (int64_t)self->hash);
    tfos__call_reset(&call);
}

static void tell_calls(worker *self)
{
    for (uint64_t number = 0; number < (self->hosts->count > 1 ? 12 : 25); number++) {
        drawn it = draw_call(self->seed, self->ranks, number);
        make_call(self, &it, number);
    }
    expect_the_same(self);
}

/* Hosts of one worker and of several, in any order: two of them, which exchange, and more, which have rings. */
static const topology places[] = {"01",   "012",   "0011",  "0101",   "0123",     "01210",
                                  "0112", "00001", "01234", "012345", "01234567", "00112233"};

enum { PLACES = sizeof places / sizeof *places };

static void test_hosts_get_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLACES; i++) {
        run_on(places[i], i % 3 == 0 ? 65536 : 4096, i, LIMIT_MS, tell_calls);
    }
}

static void test_everybody_gets_the_same_bits(void **state)
{
    (void)state;
    for (size_t ranks = 1; ranks <= RANKS_MOST; ranks++) {
        run_together(ranks, ranks % 2 == 0 ? 4096 : 262144, ranks, LIMIT_MS, tell_calls);
    }
}

/* ---- joining ---- */

enum { ROUNDS = 3, CALLS_MOST = 12 };

/* Calls that a worker makes before it joins. */
static uint64_t calls_of(uint64_t seed, uint64_t round, size_t rank)
{
    return mix(seed, round, 500 + rank) % CALLS_MOST;
}

static void tell_joins(worker *self)
{
    for (uint64_t round = 0; round < ROUNDS; round++) {
        size_t newest = 0;
        for (size_t rank = 1; rank < self->ranks; rank++) {
            bool later = calls_of(self->seed, round, rank) > calls_of(self->seed, round, newest);
            newest = later ? rank : newest;
        }
        for (uint64_t i = 0; i < calls_of(self->seed, round, self->rank); i++) {
            drawn it = draw_call(self->seed, self->ranks, round * 100 + i);
            for (size_t rank = 0; rank < self->ranks; rank++) {
                it.joined[rank] = i >= calls_of(self->seed, round, rank);
            }
            while (it.joined[it.root]) {
                it.root = (it.root + 1) % self->ranks;
            }
            make_call(self, &it, round * 100 + i);
        }
        size_t last = SIZE_MAX;
        EXPECT(tfos__runner_join(self->runner, &last, NULL) == TFOS_OK);
        EXPECT(last == newest);
    }
}

static void test_whoever_has_joined_is_not_waited_for(void **state)
{
    (void)state;
    for (size_t ranks = 1; ranks <= 5; ranks++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            run_together(ranks, seed % 2 == 0 ? 4096 : 65536, seed, LIMIT_MS, tell_joins);
        }
    }
}

/* A host whose workers have all joined still passes on what comes. */
static void test_hosts_join(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLACES; i++) {
        run_on(places[i], i % 2 == 0 ? 4096 : 65536, i, LIMIT_MS, tell_joins);
    }
}

/* ---- weight ---- */

/* What has no weight is not read, whatever it is. */
static void tell_nan_without_weight(worker *self)
{
    float in[1000];
    float out[1000];
    for (size_t i = 0; i < 1000; i++) {
        in[i] = self->rank == 1 ? NAN : (float)self->rank + 1;
    }
    for (int merge = TFOS_MERGE_SUM; merge <= TFOS_MERGE_MAX; merge++) {
        const tfos_part part = {.element = TFOS_ELEMENT_FLOAT32,
                                .merge = (tfos_merge)merge,
                                .dimensions = 1,
                                .shape = {1000},
                                .input = in,
                                .output = out};
        tfos__call call;
        tfos_call_result outcome;
        EXPECT(tfos__call_init(&call, &part, 1, "", TFOS_ELEMENT_FLOAT32, NULL) == TFOS_OK);
        EXPECT(tfos__runner_call(self->runner, &call, self->rank == 1 ? 0 : 1, 0, &outcome, NULL) == TFOS_OK);
        EXPECT(outcome.contributors == self->ranks - 1 && outcome.weight == (double)(self->ranks - 1));
        for (size_t i = 0; i < 1000; i++) {
            EXPECT(isfinite(out[i]));
        }
        tfos__call_reset(&call);
    }
}

static void test_nan_without_weight_does_no_harm(void **state)
{
    (void)state;
    run_together(2, 4096, 0, LIMIT_MS, tell_nan_without_weight);
    run_together(4, 4096, 0, LIMIT_MS, tell_nan_without_weight);
    run_on("01", 4096, 0, LIMIT_MS, tell_nan_without_weight);
    run_on("0112", 4096, 0, LIMIT_MS, tell_nan_without_weight);
}

/* ---- trouble ---- */

static tfos_status reduce_floats(worker *self, int64_t count, const char *about, tfos_error *error)
{
    float *at = calloc((size_t)count + 1, sizeof *at);
    const tfos_part part = {.element = TFOS_ELEMENT_FLOAT32,
                            .merge = TFOS_MERGE_SUM,
                            .dimensions = 1,
                            .shape = {count},
                            .input = at,
                            .output = at};
    tfos__call call;
    tfos_call_result outcome;
    EXPECT(tfos__call_init(&call, &part, 1, about, TFOS_ELEMENT_FLOAT32, NULL) == TFOS_OK);
    tfos_status status = tfos__runner_call(self->runner, &call, 1, 0, &outcome, error);
    tfos__call_reset(&call);
    free(at);
    return status;
}

static void tell_mismatch(worker *self)
{
    tfos_error error;
    EXPECT(reduce_floats(self, 10, "", NULL) == TFOS_OK);
    EXPECT(reduce_floats(self, self->rank == 2 ? 11 : 10, "", &error) == TFOS_MISMATCH);
    EXPECT(strstr(error.message, "worker:0") != NULL && strstr(error.message, "worker:2") != NULL);
    EXPECT(strstr(error.message, "sum of float32[10]") != NULL && strstr(error.message, "sum of float32[11]") != NULL);
    EXPECT(reduce_floats(self, 10, "", &error) == TFOS_MISMATCH); /* and so it stays */
}

static void test_others_do_something_else(void **state)
{
    (void)state;
    run_together(3, 4096, 0, LIMIT_MS, tell_mismatch);
    run_on("012", 4096, 0, LIMIT_MS, tell_mismatch);
    run_on("00112", 4096, 0, LIMIT_MS, tell_mismatch);
}

/* Nobody waits for ever for one that is gone, and all say who it is: also those that wait for one that waits for it. */
static void tell_absence(worker *self)
{
    tfos_error error;
    EXPECT(reduce_floats(self, 10, "", NULL) == TFOS_OK);
    if (self->rank == 1) {
        poll(NULL, 0, self->hosts->count > 1 ? 2500 : 0); /* it is there, and does not come */
        return;
    }
    self->deadline_ms = tfos__clock_ms() + (self->hosts->count > 1 ? 1000 : 300);
    EXPECT(reduce_floats(self, 1000000, "", &error) == TFOS_IO);
    EXPECT(strstr(error.message, "worker:1 does not come") != NULL);
}

static void test_one_does_not_come(void **state)
{
    (void)state;
    run_together(3, 4096, 0, LIMIT_MS, tell_absence);
    run_on("012", 4096, 0, LIMIT_MS, tell_absence);
    run_on("0011", 4096, 0, LIMIT_MS, tell_absence);
}

/* A failure reaches everybody at once, also those that wait for somebody else. */
static void tell_failure_elsewhere(worker *self)
{
    tfos_error error;
    EXPECT(reduce_floats(self, 10, "", NULL) == TFOS_OK);
    int64_t begin = tfos__clock_ms();
    if (self->rank == 0) {
        poll(NULL, 0, 2000);
    } else if (self->rank == 3) {
        tfos__board_fail(self->board, TFOS_CANCELLED, "the disk is full");
    }
    EXPECT(reduce_floats(self, 10, "", &error) == TFOS_CANCELLED);
    EXPECT(strstr(error.message, "the disk is full") != NULL);
    EXPECT(self->rank == 0 || tfos__clock_ms() - begin < 1500);
}

static void test_a_failure_is_heard_while_waiting(void **state)
{
    (void)state;
    run_on("0123", 4096, 0, LIMIT_MS, tell_failure_elsewhere);
    run_on("0122", 4096, 0, LIMIT_MS, tell_failure_elsewhere);
}

/* ---- nonsense ---- */

/* What another process shows is not believed. Worker 1 shows a head by hand, and nobody does anything by it. */
static void tell_nonsense(worker *self)
{
    tfos_error error;
    if (self->rank == 0) {
        tfos_status status = reduce_floats(self, 8000, "", &error);
        EXPECT(status == TFOS_CORRUPT || status == TFOS_MISMATCH);
        return;
    }
    tfos__head *head = tfos__board_head(self->board, tfos__hosts_place(self->hosts, self->rank));
    *head = (tfos__head){.kind = TFOS__HEAD_CALL,
                         .weight = 1,
                         .slot_bytes = 4096,
                         .stream_bytes = 32000,
                         .class_count = 1,
                         .classes = {{.bytes = 32000}}};
    switch (self->seed) {
    case 0:
        head->wire = TFOS_ELEMENT_FLOAT64;
        break;
    case 1:
        head->class_count = TFOS__CALL_CLASSES_MOST; /* all of them the same */
        for (size_t i = 1; i < TFOS__CALL_CLASSES_MOST; i++) {
            head->classes[i] = head->classes[0];
        }
        break;
    case 2:
        head->classes[0].bytes = 31999;
        break;
    case 3:
        head->class_count = UINT32_MAX;
        break;
    case 4:
        head->gathered_count = UINT32_MAX;
        break;
    case 5:
        head->root = 2;
        break;
    case 6:
        head->weight = NAN;
        break;
    default:
        head->classes[0].element = 200;
    }
    tfos__board_advance(self->board, 1);
    poll(NULL, 0, 200);
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        run_together(2, 4096, seed, LIMIT_MS, tell_nonsense);
    }
}

/* What one finds out, all hear. */
static void tell_failure(worker *self)
{
    tfos_error error;
    EXPECT(reduce_floats(self, 10, "", NULL) == TFOS_OK);
    if (self->rank == 1) {
        tfos__board_fail(self->board, TFOS_CANCELLED, "the disk is full");
        return;
    }
    EXPECT(reduce_floats(self, 10, "", &error) == TFOS_CANCELLED);
    EXPECT(strstr(error.message, "the disk is full") != NULL);
}

static void test_a_failure_is_told(void **state)
{
    (void)state;
    run_together(3, 4096, 0, LIMIT_MS, tell_failure);
    run_on("00112", 4096, 0, LIMIT_MS, tell_failure);
}

static void test_calls_that_cannot_be(void **state)
{
    (void)state;
    float number = 1;
    tfos__call call;
    tfos_error error;
    tfos_part part = {.element = TFOS_ELEMENT_INT32, .merge = TFOS_MERGE_MEAN, .input = &number, .output = &number};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", TFOS_ELEMENT_FLOAT32, &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "would not be whole"));
    part = (tfos_part){.merge = TFOS_MERGE_GATHER, .input = &number};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", TFOS_ELEMENT_FLOAT32, &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "a scalar cannot be gathered"));
    part = (tfos_part){.dimensions = 2, .shape = {INT64_MAX / 2, 9}};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", TFOS_ELEMENT_FLOAT32, &error), TFOS_INVALID);
    part = (tfos_part){.dimensions = 1, .shape = {-1}};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", TFOS_ELEMENT_FLOAT32, &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "dimension 0 is -1"));
    part = (tfos_part){.dimensions = TFOS_PART_DIMENSIONS_MOST + 1};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", TFOS_ELEMENT_FLOAT32, &error), TFOS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_gets_the_same_bits),
        cmocka_unit_test(test_hosts_get_the_same),
        cmocka_unit_test(test_hosts_join),
        cmocka_unit_test(test_whoever_has_joined_is_not_waited_for),
        cmocka_unit_test(test_nan_without_weight_does_no_harm),
        cmocka_unit_test(test_others_do_something_else),
        cmocka_unit_test(test_one_does_not_come),
        cmocka_unit_test(test_a_failure_is_told),
        cmocka_unit_test(test_a_failure_is_heard_while_waiting),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_calls_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

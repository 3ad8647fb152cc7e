/* A whole cluster that is fed.
 *
 * Modes of programs, "name" or "name:number":
 *   take        rows until the feed ends; ends of epochs are written down
 *   take:N      N rows, then exit
 *   kill:N      N rows, then SIGKILL
 *   leave:N     node 0 takes N rows and exits; the others take rows, slowly
 *   mute        takes rows and gives no results
 *   terminate:N N rows, then the feed ends for all; exits when there is a file "go" in the folder
 *   stuck       takes one batch and no more
 *   idle        does not open it
 *   infer       gives twice each number back
 *   few:N       like infer, but gives no result to N rows and exits
 *   slow:N      takes rows with N milliseconds before each batch
 *   lockstep:N  two nodes: N batches, each only when the other one has the one before, then the feed ends for all; node
 * 1 begins when there is a file "go" in the folder */
#include "helper_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "column/batch.h"
#include "driver/spawn.h"
#include "feed/consumer.h"
#include "helper_hosts.h"
#include "helper_records.h"
#include "net/frame.h"

/* ---- the program of a node ---- */

static void say_and_exit(const char *what, const tfos_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->message);
    exit(3);
}

static long node_index(void)
{
    const char *context = getenv("TFOS_CONTEXT");
    const char *index = context != NULL ? strstr(context, "\"index\"") : NULL;
    return index != NULL ? strtol(index + strcspn(index, "0123456789"), NULL, 10) : -1;
}

static int open_rows(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/rows.%ld", folder, node_index());
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* By which a test finds the process. */
static void leave_pid(const char *folder)
{
    char path[512];
    char pid[32];
    snprintf(path, sizeof path, "%s/pid.%ld", folder, node_index());
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    (void)unlink(path); /* of a program before this one */
    if (symlink(pid, path) != 0) {
        perror("the file of its process");
        exit(5);
    }
}

static void write_down(int rows, const int64_t *numbers, int64_t count)
{
    size_t bytes = (size_t)count * sizeof *numbers;
    if (write(rows, numbers, bytes) != (ssize_t)bytes) {
        exit(4);
    }
}

static tfos_batch *double_of(const tfos_batch *batch)
{
    static tfos_schema *schema;
    tfos_batch *doubled = NULL;
    const tfos_field field = {.name = "twice", .type = TFOS_TYPE_INT64};
    const int64_t *numbers = tfos_batch_column(batch, 0)->data;
    if (schema == NULL) {
        tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL);
        tfos_schema_add(schema, &field, NULL);
    }
    tfos__batch_new(schema, &doubled, NULL);
    for (int64_t i = 0; i < tfos_batch_rows(batch); i++) {
        tfos__vector_push_int(tfos__batch_vector(doubled, 0), 2 * numbers[i], NULL);
    }
    tfos__batch_finish(doubled, tfos_batch_rows(batch), NULL);
    return doubled;
}

typedef struct program {
    const char *mode;
    long number;
    int rows;
    tfos_feed *feed;
    int64_t taken;
    uint64_t epochs;
    long index;
    const char *folder;
} program;

static bool does(const program *self, const char *mode)
{
    size_t bytes = strlen(mode);
    return strncmp(self->mode, mode, bytes) == 0 && (self->mode[bytes] == '\0' || self->mode[bytes] == ':');
}

static void answer(const program *self, const tfos_batch *batch)
{
    tfos_error error;
    if (does(self, "few") && self->taken >= self->number) {
        exit(0);
    }
    tfos_batch *results = double_of(batch);
    if (tfos_feed_put_results(self->feed, results, NULL, &error) != TFOS_OK) {
        say_and_exit("tfos_feed_put_results", &error);
    }
    tfos_batch_free(results);
}

static void act_on(program *self)
{
    tfos_error error;
    if (self->number <= 0 || self->taken < self->number) {
        return;
    }
    if (does(self, "take") || (does(self, "leave") && self->index == 0)) {
        exit(0);
    } else if (does(self, "kill")) {
        raise(SIGKILL);
    } else if (does(self, "terminate") && tfos_feed_terminate(self->feed, &error) != TFOS_OK) {
        say_and_exit("tfos_feed_terminate", &error);
    }
}

static void await_file(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    while (access(path, F_OK) != 0) {
        poll(NULL, 0, 2);
    }
}

/* What an all-reduce is to the feed. */
static void step_together(const program *self, long step)
{
    char path[512];
    char other[64];
    tfos_error error;
    snprintf(path, sizeof path, "%s/step.%ld.%ld", self->folder, step, self->index);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    snprintf(other, sizeof other, "step.%ld.%ld", step, 1 - self->index);
    await_file(self->folder, other);
    if (step + 1 == self->number && tfos_feed_terminate(self->feed, &error) != TFOS_OK) {
        say_and_exit("tfos_feed_terminate", &error);
    }
}

static void take_rows(program *self, int64_t batch_rows)
{
    tfos_feed_want want;
    tfos_feed_want_init(&want, sizeof want);
    want.split_epochs = true;
    for (long step = 0;; step++) {
        tfos_batch *batch;
        tfos_error error;
        want.rows = self->number > 0 && (does(self, "take") || does(self, "kill") || does(self, "terminate")) &&
                            self->number - self->taken < batch_rows && self->taken < self->number
                        ? self->number - self->taken
                        : batch_rows;
        if (does(self, "slow") || (does(self, "leave") && self->index > 0)) {
            poll(NULL, 0, does(self, "slow") ? (int)self->number : 20);
        }
        tfos_status status = tfos_feed_next(self->feed, &want, &batch, &error);
        /* The last epoch and the feed may end at once; how many epochs there were is known inside. */
        tfos__queue_view view;
        tfos__feed_view(self->feed, &view);
        for (; status == TFOS_END && self->epochs < view.marks_passed; self->epochs++) {
            write_down(self->rows, &(int64_t){HELPER_EPOCH_END}, 1);
        }
        if (status == TFOS_END && tfos_feed_ended(self->feed)) {
            tfos__feed_view(self->feed, &view);
            if (self->epochs == view.marks_received) {
                return;
            }
        }
        if (status == TFOS_END) {
            continue;
        }
        if (status != TFOS_OK) {
            say_and_exit("tfos_feed_next", &error);
        }
        write_down(self->rows, tfos_batch_column(batch, 0)->data, tfos_batch_rows(batch));
        self->taken += tfos_batch_rows(batch);
        if (does(self, "infer") || does(self, "few")) {
            answer(self, batch);
        }
        tfos_batch_free(batch);
        if (does(self, "stuck")) {
            fprintf(stderr, "I am stuck\n");
            poll(NULL, 0, 600000);
        }
        if (does(self, "lockstep")) {
            step_together(self, step);
        }
        act_on(self);
    }
}

void helper_program_main(int argc, char **argv)
{
    tfos_error error;
    if (argc != 5 || strcmp(argv[1], "program") != 0) {
        return;
    }
    const char *number = strchr(argv[2], ':');
    program self = {.mode = argv[2], .number = number != NULL ? strtol(number + 1, NULL, 10) : 0};
    self.index = node_index();
    self.folder = argv[4];
    self.rows = open_rows(argv[4]);
    if (self.rows < 0) {
        perror("the file of rows");
        exit(5);
    }
    leave_pid(self.folder);
    if (does(&self, "idle")) {
        poll(NULL, 0, 600000);
    }
    if (does(&self, "lockstep") && self.index == 1) {
        await_file(self.folder, "go");
    }
    if (tfos_feed_open("input", &self.feed, &error) != TFOS_OK) {
        say_and_exit("tfos_feed_open", &error);
    }
    take_rows(&self, strtol(argv[3], NULL, 10));
    if (does(&self, "terminate")) {
        await_file(self.folder, "go");
    }
    tfos_feed_close(self.feed);
    exit(0);
}

/* ---- the driver ---- */

const char *helper_cluster_host = "127.0.0.1";
const char *helper_cluster_other_host;

static void take_event(helper_cluster *it, const tfos_cluster_event *event)
{
    switch (event->kind) {
    case TFOS_EVENT_READY:
        it->ready = true;
        break;
    case TFOS_EVENT_FAILED:
        snprintf(it->failure, sizeof it->failure, "%s", event->text);
        break;
    case TFOS_EVENT_FEED:
        tfos__buffer_printf(&it->feed_events, NULL, "%s %" PRId64 "/%" PRId64 "%s%s\n", event->state, event->count,
                            event->total, event->text[0] != '\0' ? ": " : "", event->text);
        break;
    case TFOS_EVENT_STATUS:
        it->status.size = 0;
        tfos__buffer_append(&it->status, event->text, strlen(event->text) + 1, NULL);
        break;
    case TFOS_EVENT_OVER:
        it->over = true;
        break;
    default:
        break;
    }
}

void helper_cluster_pump(helper_cluster *it, int64_t ms)
{
    int64_t deadline = tfos__clock_ms() + ms;
    do {
        tfos_cluster_event event;
        tfos_error error;
        int64_t left = deadline - tfos__clock_ms();
        tfos_status status = tfos_cluster_next(it->cluster, left > 0 ? left : 0, &event, &error);
        if (status == TFOS_END) {
            it->over = true;
            return;
        }
        if (status != TFOS_OK) {
            fail_msg("the coordinator is gone: %s", error.message);
        }
        take_event(it, &event);
        if (event.kind == TFOS_EVENT_NONE && left <= 0) {
            return;
        }
    } while (true);
}

static const char *events_of(helper_cluster *it)
{
    tfos__buffer_append(&it->feed_events, "", 1, NULL);
    it->feed_events.size--;
    return (const char *)it->feed_events.data;
}

void helper_cluster_expect_event(helper_cluster *it, const char *text, int64_t most_ms)
{
    int64_t deadline = tfos__clock_ms() + most_ms;
    while (strstr(events_of(it), text) == NULL) {
        if (tfos__clock_ms() > deadline) {
            fail_msg("no event '%s'; the events: %s; the failure: %s", text, events_of(it), it->failure);
        }
        helper_cluster_pump(it, 10);
    }
}

/* A node that a Spark task would have started on the other host. */
static void spawn_elsewhere(helper_cluster *it, int32_t index)
{
    tfos__message message;
    tfos__buffer frames = {0};
    const uint8_t *ticket;
    char command[512];
    size_t bytes;
    pid_t pid;
    int input;
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    tfos_cluster_ticket(it->cluster, &ticket, &bytes);
    uint32_t length = (uint32_t)bytes;
    tfos__message_init(&message, TFOS__MESSAGE_START);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, (uint64_t)index);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, helper_cluster_other_host);
    tfos__message_put_string(&message, TFOS__FIELD_EXECUTOR, "elsewhere");
    tfos__message_put_number(&message, TFOS__FIELD_EXECUTOR_PID, (uint64_t)getpid());
    tfos__message_put_number(&message, TFOS__FIELD_CORES, 1);
    tfos__message_put_string(&message, TFOS__FIELD_WORK_FOLDER, it->folder);
    assert_int_equal(tfos__buffer_append(&frames, &length, sizeof length, NULL), TFOS_OK);
    assert_int_equal(tfos__buffer_append(&frames, ticket, bytes, NULL), TFOS_OK);
    assert_int_equal(tfos__frame_append(&message, &frames, NULL), TFOS_OK);
    assert_int_equal(tfos__command_find(NULL, command, sizeof command, NULL), TFOS_OK);
    assert_true(here >= 0 && setns(helper_other_host, CLONE_NEWNET) == 0);
    assert_int_equal(tfos__command_spawn(command, "node", environ, &pid, &input, NULL), TFOS_OK);
    assert_true(setns(here, CLONE_NEWNET) == 0);
    assert_int_equal(write(input, frames.data, frames.size), (ssize_t)frames.size);
    tfos__buffer_reset(&frames);
    close(here);
    it->elsewhere[it->elsewhere_count].pid = pid;
    it->elsewhere[it->elsewhere_count++].input = input; /* stays open: a node whose task is gone would stop */
}

void helper_cluster_open(helper_cluster *it, int32_t nodes, const char *mode, int64_t batch_rows,
                         const char *const *settings)
{
    char self[512] = "";
    char rows[24];
    tfos_cluster_options options;
    tfos_error error = {0};
    memset(it, 0, sizeof *it);
    const char *temporary = getenv("TMPDIR");
    snprintf(it->folder, sizeof it->folder, "%s/feed.XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(it->folder));
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(rows, sizeof rows, "%" PRId64, batch_rows);
    const char *const words[] = {self, "program", mode, rows, it->folder, NULL};
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = it->nodes = nodes;
    options.host = helper_cluster_host;
    options.folder = it->folder;
    options.program = words;
    options.spark_feeds = true;
    options.settings = settings;
    options.timeout_ms = 60000;
    if (tfos_cluster_open(&options, &it->cluster, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    for (int32_t i = 0; i < nodes; i++) {
        if (helper_cluster_other_host != NULL && i % 2 == 1) {
            spawn_elsewhere(it, i);
        } else if (tfos_cluster_spawn(it->cluster, i, &error) != TFOS_OK) {
            fail_msg("%s", error.message);
        }
    }
    for (int64_t deadline = tfos__clock_ms() + 60000; !it->ready;) {
        assert_true(tfos__clock_ms() < deadline);
        helper_cluster_pump(it, 10);
    }
}

void helper_cluster_abandon(helper_cluster *it)
{
    char command[300];
    tfos_cluster_close(it->cluster);
    for (size_t i = 0; i < it->elsewhere_count; i++) {
        close(it->elsewhere[i].input);
        waitpid(it->elsewhere[i].pid, NULL, 0);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", it->folder);
    assert_int_equal(system(command), 0);
    tfos__buffer_reset(&it->feed_events);
    tfos__buffer_reset(&it->status);
}

/* In which programs must have ended, or somebody must have said what is wrong. */
enum { TROUBLE_MS = HELPER_SANITIZED ? 120000 : 30000 };

void helper_cluster_close(helper_cluster *it)
{
    tfos_error error;
    if (tfos_cluster_end_feeds(it->cluster, &error) != TFOS_OK ||
        tfos_cluster_finish(it->cluster, 0, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    for (int64_t deadline = tfos__clock_ms() + TROUBLE_MS; !it->over;) {
        if (tfos__clock_ms() > deadline) {
            fail_msg("the programs do not end");
        }
        helper_cluster_pump(it, 10);
    }
    assert_string_equal(it->failure, "");
    helper_cluster_abandon(it);
}

void helper_cluster_wait_failure(helper_cluster *it)
{
    for (int64_t deadline = tfos__clock_ms() + TROUBLE_MS; it->failure[0] == '\0'; helper_cluster_pump(it, 10)) {
        if (tfos__clock_ms() > deadline) {
            fail_msg("nobody says that something is wrong");
        }
    }
}

static void name_error(const char *folder, size_t rank, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/error.%zu", folder, rank);
}

void helper_leave_error(const char *folder, size_t rank, const char *text)
{
    char path[512];
    name_error(folder, rank, path, sizeof path);
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        fputs(text, file);
        fclose(file);
    }
}

const char *helper_cluster_error_of(helper_cluster *it, size_t rank)
{
    static char text[2048];
    char path[512];
    name_error(it->folder, rank, path, sizeof path);
    for (int64_t deadline = tfos__clock_ms() + TROUBLE_MS; tfos__clock_ms() < deadline; helper_cluster_pump(it, 10)) {
        FILE *file = fopen(path, "r");
        size_t got = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
        text[got] = '\0';
        if (file != NULL) {
            fclose(file);
        }
        if (got > 0) {
            return text;
        }
    }
    fail_msg("worker %zu was told nothing; the failure: %s", rank, it->failure);
    return "";
}

void helper_cluster_wait_hungry(helper_cluster *it)
{
    int32_t hungry = 0;
    for (int64_t deadline = tfos__clock_ms() + 30000; hungry < it->nodes;) {
        assert_true(tfos__clock_ms() < deadline);
        assert_int_equal(tfos_cluster_request_status(it->cluster, NULL), TFOS_OK);
        helper_cluster_pump(it, 50);
        hungry = 0;
        const char *at = it->status.size > 0 ? (const char *)it->status.data : "";
        while ((at = strstr(at, "\"hungry\":true")) != NULL) {
            hungry++;
            at++;
        }
    }
}

long helper_cluster_node_pid(helper_cluster *it)
{
    for (int64_t deadline = tfos__clock_ms() + 20000; it->status.size == 0;) {
        assert_true(tfos__clock_ms() < deadline);
        assert_int_equal(tfos_cluster_request_status(it->cluster, NULL), TFOS_OK);
        helper_cluster_pump(it, 50);
    }
    const char *pid = strstr((const char *)it->status.data, "\"pid\":");
    assert_non_null(pid);
    return strtol(pid + 6, NULL, 10);
}

uint64_t helper_cluster_feed(helper_cluster *it, const tfos_feed_options *options)
{
    uint64_t feed = 0;
    tfos_error error;
    char event[64];
    if (tfos_cluster_open_feed(it->cluster, options, &feed, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    snprintf(event, sizeof event, "open %" PRIu64 "/", feed);
    helper_cluster_expect_event(it, event, 10000);
    return feed;
}

void helper_cluster_epoch(helper_cluster *it, uint64_t feed, uint64_t epoch)
{
    char event[64];
    assert_int_equal(tfos_cluster_begin_epoch(it->cluster, feed, epoch, NULL), TFOS_OK);
    snprintf(event, sizeof event, "epoch %" PRIu64 "/%" PRIu64, feed, epoch);
    helper_cluster_expect_event(it, event, 10000);
}

tfos_feed_options helper_feed_of(int64_t partitions)
{
    tfos_feed_options options;
    tfos_feed_options_init(&options, sizeof options);
    options.partitions = partitions;
    options.determinate = true;
    return options;
}

uint64_t helper_cluster_begin(helper_cluster *it, const tfos_feed_options *options)
{
    uint64_t feed = helper_cluster_feed(it, options);
    helper_cluster_epoch(it, feed, 0);
    return feed;
}

void helper_cluster_wait_over(helper_cluster *it)
{
    assert_int_equal(tfos_cluster_end_feeds(it->cluster, NULL), TFOS_OK);
    assert_int_equal(tfos_cluster_finish(it->cluster, 0, NULL), TFOS_OK);
    for (int64_t deadline = tfos__clock_ms() + 20000; !it->over;) {
        assert_true(tfos__clock_ms() < deadline);
        helper_cluster_pump(it, 10);
    }
    assert_string_equal(it->failure, "");
}

pid_t helper_cluster_program_pid(const helper_cluster *it, int32_t node)
{
    char path[300];
    char pid[32] = "";
    snprintf(path, sizeof path, "%s/pid.%d", it->folder, node);
    assert_true(readlink(path, pid, sizeof pid - 1) > 0);
    return (pid_t)strtol(pid, NULL, 10);
}

int64_t *helper_cluster_rows(const helper_cluster *it, int32_t node, size_t *count)
{
    char path[300];
    struct stat info;
    snprintf(path, sizeof path, "%s/rows.%d", it->folder, node);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    *count = 0;
    if (file < 0) {
        return NULL;
    }
    assert_int_equal(fstat(file, &info), 0);
    int64_t *rows = malloc((size_t)info.st_size + 1);
    assert_non_null(rows);
    assert_int_equal(read(file, rows, (size_t)info.st_size), info.st_size);
    close(file);
    *count = (size_t)info.st_size / sizeof *rows;
    return rows;
}

size_t helper_cluster_count(const helper_cluster *it)
{
    size_t all = 0;
    for (int32_t i = 0; i < it->nodes; i++) {
        size_t count;
        int64_t *rows = helper_cluster_rows(it, i, &count);
        for (size_t j = 0; j < count; j++) {
            all += rows[j] != HELPER_EPOCH_END ? 1 : 0;
        }
        free(rows);
    }
    return all;
}

int64_t helper_row_of(uint64_t partition, int64_t row)
{
    return (int64_t)partition * 10000000 + row;
}

void helper_cluster_expect_rows(const helper_cluster *it, const int64_t *sizes, size_t partitions, int epochs)
{
    unsigned char **seen = calloc(partitions, sizeof *seen);
    for (size_t p = 0; p < partitions; p++) {
        seen[p] = calloc((size_t)sizes[p] + 1, 1);
    }
    for (int32_t i = 0; i < it->nodes; i++) {
        size_t count;
        int64_t *rows = helper_cluster_rows(it, i, &count);
        for (size_t j = 0; j < count; j++) {
            size_t partition = (size_t)(rows[j] / 10000000);
            int64_t row = rows[j] % 10000000;
            if (rows[j] != HELPER_EPOCH_END) {
                assert_true(partition < partitions && row < sizes[partition]);
                seen[partition][row]++;
            }
        }
        free(rows);
    }
    for (size_t p = 0; p < partitions; p++) {
        for (int64_t row = 0; row < sizes[p]; row++) {
            if (seen[p][row] != epochs) {
                fail_msg("row %" PRId64 " of partition %zu came %d times, not %d", row, p, seen[p][row], epochs);
            }
        }
        free(seen[p]);
    }
    free(seen);
}

void helper_cluster_expect_shared(const helper_cluster *it, size_t least)
{
    for (int32_t i = 0; i < it->nodes; i++) {
        size_t count;
        free(helper_cluster_rows(it, i, &count));
        if (count < least) {
            fail_msg("node %d got %zu rows, expected %zu at least", i, count, least);
        }
    }
}

uint16_t helper_find_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_ANY)}};
    socklen_t bytes = sizeof address;
    int found = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(found, (const struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(found, (struct sockaddr *)&address, &bytes), 0);
    close(found);
    return ntohs(address.sin_port);
}

/* ---- tasks ---- */

static tfos_batch *make_batch(const helper_task *task, const tfos_schema *schema, int64_t first, int64_t rows)
{
    tfos_batch *batch = NULL;
    char *bytes = calloc(1, (size_t)task->row_bytes + 1);
    tfos__batch_new(schema, &batch, NULL);
    for (int64_t i = first; i < first + rows; i++) {
        tfos__vector_push_int(tfos__batch_vector(batch, 0), helper_row_of(task->partition, i), NULL);
        if (task->row_bytes > 0) {
            tfos__vector_push_bytes(tfos__batch_vector(batch, 1), bytes, (size_t)task->row_bytes, NULL);
        }
    }
    tfos__batch_finish(batch, rows, NULL);
    free(bytes);
    return batch;
}

static tfos_schema *make_schema(const helper_task *task)
{
    tfos_schema *schema = NULL;
    const tfos_field number = {.name = "n", .type = TFOS_TYPE_INT64};
    const tfos_field bytes = {.name = "b", .type = TFOS_TYPE_BINARY};
    tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL);
    tfos_schema_add(schema, &number, NULL);
    if (task->row_bytes > 0) {
        tfos_schema_add(schema, &bytes, NULL);
    }
    return schema;
}

/* Results must be twice the numbers, in their order. */
static tfos_status take_results(const helper_task *task, tfos_feeder *feeder, bool wait, int64_t *checked,
                                tfos_error *error)
{
    for (;;) {
        tfos_batch *results = NULL;
        tfos_status status =
            tfos_feeder_take_results(feeder, wait ? TFOS_WAIT_FOR_RESULTS : TFOS_WAIT_NOT, &results, error);
        if (status != TFOS_OK || results == NULL) {
            return status == TFOS_END ? TFOS_OK : status;
        }
        const int64_t *numbers = tfos_batch_column(results, 0)->data;
        for (int64_t i = 0; i < tfos_batch_rows(results); i++, (*checked)++) {
            if (numbers[i] != 2 * helper_row_of(task->partition, *checked)) {
                snprintf(error->message, sizeof error->message, "result %" PRId64 " is %" PRId64, *checked, numbers[i]);
                return TFOS_CORRUPT;
            }
        }
        tfos_batch_free(results);
    }
}

static tfos_status feed_all(const helper_task *task, tfos_feeder *feeder, tfos_error *error)
{
    tfos_schema *schema = make_schema(task);
    tfos_status status = TFOS_OK;
    int64_t rows = task->rows - (task->shrinks ? 1 : 0);
    int64_t checked = 0;
    int64_t batches = 0;
    for (int64_t first = 0; status == TFOS_OK && first < rows; batches++) {
        int64_t count = rows - first < task->batch_rows ? rows - first : task->batch_rows;
        tfos_batch *batch = make_batch(task, schema, first, count);
        if (task->pause_ms > 0) {
            poll(NULL, 0, (int)task->pause_ms);
        }
        if (task->fails && batches == 2) {
            *error = (tfos_error){
                .status = TFOS_INVALID, .fault = TFOS_FAULT_FINAL, .message = "column 'n', row 77: it is bad"};
            return TFOS_INVALID;
        }
        status = tfos_feeder_put_batch(feeder, batch, error);
        if (status == TFOS_OK && task->inference) {
            status = take_results(task, feeder, false, &checked, error);
        }
        tfos_batch_free(batch);
        first += count;
    }
    tfos_schema_free(schema);
    status = status == TFOS_OK && task->inference ? tfos_feeder_exhaust(feeder, error) : status;
    status = status == TFOS_OK && task->inference ? take_results(task, feeder, true, &checked, error) : status;
    if (status == TFOS_OK && task->inference && checked != task->rows) {
        snprintf(error->message, sizeof error->message, "%" PRId64 " results came", checked);
        return TFOS_CORRUPT;
    }
    return status == TFOS_OK ? tfos_feeder_finish(feeder, error) : status;
}

static int run_task(const helper_task *task, const uint8_t *ticket, size_t ticket_bytes, int output)
{
    tfos_feeder_options options;
    tfos_feeder_options_init(&options, sizeof options);
    options.ticket = ticket;
    options.ticket_bytes = ticket_bytes;
    options.partition = task->partition;
    options.attempt = task->attempt;
    options.host = "here";
    tfos_feeder *feeder = NULL;
    tfos_error error = {0};
    tfos_status status = tfos_feeder_open(&options, &feeder, &error);
    status = status == TFOS_OK ? feed_all(task, feeder, &error) : status;
    if (feeder != NULL && status != TFOS_OK && status != TFOS_END) {
        tfos_feeder_give_up(feeder, &error);
    }
    tfos_feeder_close(feeder);
    if (status != TFOS_OK && status != TFOS_END) {
        char text[TFOS_ERROR_MESSAGE_BYTES + 16];
        snprintf(text, sizeof text, "%d: %s", status, error.message);
        (void)!write(output, text, strlen(text));
    }
    return status == TFOS_OK ? HELPER_TASK_OK : status == TFOS_END ? HELPER_TASK_END : HELPER_TASK_FAILED;
}

void helper_task_start(helper_task *task, helper_cluster *it)
{
    uint8_t *ticket = NULL;
    size_t ticket_bytes;
    tfos_error error;
    int ends[2];
    if (tfos_cluster_feed_ticket(it->cluster, task->feed, task->epoch, &ticket, &ticket_bytes, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    task->pid = fork();
    assert_true(task->pid >= 0);
    if (task->pid == 0) {
        if (task->host != 0 && setns(task->host, CLONE_NEWNET) != 0) {
            _exit(99);
        }
        setenv("TFOS_FEED_LOCAL", task->far ? "0" : task->near_one ? "1" : "100", 1);
        int code = run_task(task, ticket, ticket_bytes, ends[1]);
        tfos_string_free(ticket);
        _exit(code);
    }
    close(ends[1]);
    task->output = ends[0];
    tfos_string_free(ticket);
}

int helper_task_wait(helper_task *task, helper_cluster *it, int64_t most_ms, char *message, size_t message_bytes)
{
    int status;
    char text[2048];
    int64_t deadline = tfos__clock_ms() + most_ms;
    while (waitpid(task->pid, &status, WNOHANG) == 0) {
        if (tfos__clock_ms() > deadline) {
            kill(task->pid, SIGKILL);
            waitpid(task->pid, &status, 0);
            fail_msg("the task of partition %" PRIu64 ", attempt %" PRIu64 " does not end; failure: %s",
                     task->partition, task->attempt, it->failure);
        }
        helper_cluster_pump(it, 2);
    }
    ssize_t got = read(task->output, text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    close(task->output);
    if (message != NULL) {
        snprintf(message, message_bytes, "%s", text);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void helper_task_expect_ok(helper_task *task, helper_cluster *it)
{
    char message[2048];
    int code = helper_task_wait(task, it, 60000, message, sizeof message);
    if (code != HELPER_TASK_OK) {
        fail_msg("the task of partition %" PRIu64 " ended with %d: %s; failure: %s", task->partition, code, message,
                 it->failure);
    }
}

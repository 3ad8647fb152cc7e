/* The port at which a node is fed by tasks of other hosts, and those who come there without the key: silent ones, ones
 * that talk nonsense, and ones that never finish what they have begun. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "feed/feeder.h"
#include "helper_cluster.h"
#include "helper_nodes.h"
#include "helper_process.h"

enum { FEW_MS = 20000, KINDS = 5 };

/* Who comes, and how to know it. */
typedef struct crowd {
    struct sockaddr_in address;
    tfos__buffer hello;  /* the first message of one with the key */
    tfos__buffer forged; /* … with another key */
    int *sockets;
    size_t count;
} crowd;

static void make_hello(const uint8_t key[TFOS__KEY_BYTES], tfos__buffer *out)
{
    tfos__tls_context *context;
    tfos__tls *tls;
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_CLIENT, key, TFOS__FEED_PLANE_PURPOSE, &context, NULL), TFOS_OK);
    assert_int_equal(tfos__tls_new(context, &tls, NULL), TFOS_OK);
    assert_int_equal(tfos__tls_take(tls, out, NULL), TFOS_OK);
    assert_true(out->size > 100);
    tfos__tls_free(tls);
    tfos__tls_context_free(context);
}

static void open_cluster(helper_cluster *it, crowd *them, size_t count, const char *setting)
{
    static const uint8_t wrong[TFOS__KEY_BYTES] = "not the key";
    char port[32];
    helper_address place;
    memset(them, 0, sizeof *them);
    them->address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(helper_find_port()), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    snprintf(port, sizeof port, "feed.port=%u", ntohs(them->address.sin_port));
    const char *const settings[] = {port, setting, NULL};
    helper_cluster_open(it, 1, "take", 50, settings);
    helper_ticket_read(it->cluster, &place);
    make_hello(place.key, &them->hello);
    make_hello(wrong, &them->forged);
    them->count = count;
    them->sockets = calloc(count, sizeof *them->sockets);
    memset(them->sockets, 0xff, count * sizeof *them->sockets);
}

static void disperse(crowd *them)
{
    for (size_t i = 0; i < them->count; i++) {
        if (them->sockets[i] >= 0) {
            close(them->sockets[i]);
        }
    }
    free(them->sockets);
    tfos__buffer_reset(&them->hello);
    tfos__buffer_reset(&them->forged);
}

/* A newcomer, of one of so many kinds, takes the place of the one who came `count` before it. False: nobody answers at
 * the port. */
static bool knock(crowd *them, size_t number, size_t kinds)
{
    int *at = &them->sockets[number % them->count];
    if (*at >= 0) {
        close(*at);
    }
    *at = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*at < 0 || connect(*at, (const struct sockaddr *)&them->address, sizeof them->address) != 0) {
        return false;
    }
    switch (number % kinds) {
    case 1:
        (void)!send(*at, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
        break;
    case 2:
        (void)!send(*at, them->hello.data, 20, MSG_NOSIGNAL);
        break;
    case 3:
        (void)!send(*at, them->forged.data, them->forged.size, MSG_NOSIGNAL);
        break;
    case 4:
        (void)!send(*at, them->hello.data, them->hello.size, MSG_NOSIGNAL); /* as somebody who has recorded it */
        break;
    default:
        break;
    }
    return true;
}

/* How often the logs of the nodes have this text. */
static size_t count_noted(const helper_cluster *it, const char *text)
{
    char pattern[300];
    char line[4096];
    size_t count = 0;
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.log", it->folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");
        assert_non_null(file);
        while (fgets(line, sizeof line, file) != NULL) {
            count += strstr(line, text) != NULL ? 1 : 0;
        }
        fclose(file);
    }
    globfree(&found);
    return count;
}

/* A crowd holds the port, and more come all the time. None of them is sent away for being slow: the time is longer than
 * the test. */
static void test_whoever_has_the_key_gets_in(void **state)
{
    (void)state;
    enum { CROWD = 1500 };
    const int64_t sizes[] = {20000};
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster it;
    crowd them;
    open_cluster(&it, &them, CROWD, "cluster.handshake_ms=600000");
    uint64_t feed = helper_cluster_begin(&it, &options);
    for (size_t i = 0; i < CROWD; i++) {
        assert_true(knock(&them, i, KINDS));
    }
    pid_t more = fork();
    if (more == 0) {
        for (size_t i = 0; knock(&them, i, KINDS - 1); i++) {}
        _exit(0);
    }
    int64_t began = tfos__clock_ms();
    helper_task task = {.feed = feed, .attempt = 1, .rows = 20000, .batch_rows = 500, .far = true};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    int64_t took = tfos__clock_ms() - began;
    size_t threads = helper_process_threads(helper_cluster_node_pid(&it));
    kill(more, SIGKILL);
    waitpid(more, NULL, 0);
    if (took > FEW_MS || threads > 32) {
        fail_msg("it took %lld ms, and the node had %zu threads", (long long)took, threads);
    }
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 1, 1);
    assert_int_equal(count_noted(&it, "there are too many that do not show that they have the key"), 1);
    assert_int_equal(count_noted(&it, "has another cluster key, or does not speak tfos"), 1);
    disperse(&them);
    helper_cluster_abandon(&it);
}

/* Whether the other end has closed the connection. */
static bool is_gone(int socket)
{
    char bytes[4096];
    ssize_t got;
    do {
        got = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (got > 0); /* its part of a handshake, or an alert */
    return got == 0 || errno != EAGAIN;
}

/* The time is for the whole handshake, also of one that sends a byte now and then. */
static void test_strangers_go_in_time(void **state)
{
    (void)state;
    enum { CROWD = 20, DRIP_MS = 50 };
    helper_cluster it;
    crowd them;
    open_cluster(&it, &them, CROWD, "cluster.handshake_ms=500");
    for (size_t i = 0; i < CROWD; i++) {
        assert_true(knock(&them, i, KINDS));
    }
    size_t sent = 20; /* by number 2 */
    size_t here = CROWD;
    int64_t began = tfos__clock_ms();
    for (; here > 0 && tfos__clock_ms() - began < FEW_MS / 4; helper_cluster_pump(&it, DRIP_MS)) {
        here = 0;
        for (size_t i = 0; i < CROWD; i++) {
            here += is_gone(them.sockets[i]) ? 0 : 1;
        }
        assert_true(sent < them.hello.size - 1);
        (void)!send(them.sockets[2], them.hello.data + sent++, 1, MSG_NOSIGNAL);
    }
    assert_int_equal(here, 0);
    assert_int_equal(count_noted(&it, "cluster.handshake_ms"), 1);
    disperse(&them);
    helper_cluster_close(&it);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whoever_has_the_key_gets_in),
        cmocka_unit_test(test_strangers_go_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The coordinator is watched from outside, through /proc and its processor clock: it has no part in the measurement. */
#include "swarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

_Noreturn void swarm_stop(const char *what, const char *why)
{
    fprintf(stderr, "swarm: %s: %s\n", what, why);
    exit(1);
}

static double read_clock(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) {
        swarm_stop("cannot read a clock", "is the coordinator still there?");
    }
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double swarm_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

void swarm_raise_file_limit(long need)
{
    struct rlimit limit;
    char text[128];
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < (rlim_t)need) {
        snprintf(text, sizeof text, "%ld are needed, and %llu are allowed; raise `ulimit -Hn`", need,
                 (unsigned long long)limit.rlim_max);
        swarm_stop("too few files can be open", text);
    }
}

tfos__tls_context *swarm_read_ticket(const tfos_cluster *cluster, char host[256], uint16_t *port)
{
    tfos__message ticket;
    tfos__tls_context *tls;
    tfos_error error;
    const uint8_t *bytes;
    size_t count;
    tfos_cluster_ticket(cluster, &bytes, &count);
    if (tfos__message_decode(bytes, count, &ticket, &error) != TFOS_OK ||
        tfos__tls_context_new(TFOS__TLS_CLIENT, (const uint8_t *)tfos__message_text(&ticket, TFOS__FIELD_KEY).at,
                              TFOS__LINK_PURPOSE, &tls, &error) != TFOS_OK) {
        swarm_stop("bad ticket", error.message);
    }
    tfos__message_copy(&ticket, TFOS__FIELD_HOST, host, 256);
    *port = (uint16_t)tfos__message_number(&ticket, TFOS__FIELD_PORT);
    return tls;
}

pid_t swarm_coordinator(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%d", &pid) != 1) {
        swarm_stop("cannot find the coordinator in", path);
    }
    fclose(file);
    return pid;
}

double swarm_rss_bytes(pid_t pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        swarm_stop("cannot read", path);
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

double swarm_cpu_seconds(pid_t pid)
{
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0) {
        swarm_stop("cannot measure", "the coordinator is gone");
    }
    return read_clock(clock);
}

void swarm_hello(tfos__link *link)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_HELLO);
    tfos__message_put_string(&message, TFOS__FIELD_VERSION, TFOS_VERSION);
    tfos__link_send(link, &message);
}

void swarm_make_registration(long index, const char *host, tfos__message *out)
{
    tfos__message_init(out, TFOS__MESSAGE_REGISTER);
    tfos__message_put_number(out, TFOS__FIELD_INDEX, (uint64_t)index);
    tfos__message_put_string(out, TFOS__FIELD_HOST, host);
    tfos__message_put_number(out, TFOS__FIELD_PORT, 20000 + (uint64_t)index);
    tfos__message_put_number(out, TFOS__FIELD_NODE_PID, (uint64_t)getpid());
    tfos__message_put_number(out, TFOS__FIELD_ATTEMPT, 0);
    tfos__message_put_number(out, TFOS__FIELD_CORES, 1);
    tfos__message_put_string(out, TFOS__FIELD_GPUS, "");
    tfos__message_put_string(out, TFOS__FIELD_GPU_SOURCE, "");
    tfos__message_put_string(out, TFOS__FIELD_EXECUTOR, "0");
    tfos__message_put_number(out, TFOS__FIELD_RETURNS, 0);
}

void swarm_end(tfos__link *link)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ENDED);
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, TFOS__OUTCOME_STOPPED);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, "");
    tfos__message_put_string(&message, TFOS__FIELD_TAIL, "");
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, 1);
    tfos__link_send(link, &message);
}

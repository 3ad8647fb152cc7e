/* What a call of several workers costs: `collective_calls WORKERS SHARED MOST_BYTES` prints a line of JSON.
 *
 * A real coordinator and so many real nodes, whose programs add up tensors of float32, of 4 KiB up to so many bytes, as
 * often as half a second allows; SHARED is 0 if they are to use the network, as workers on different hosts do. Of each
 * size the median time of a call is shown, beside that of a memcpy of the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "swarm.h"

enum { SAMPLES_MOST = 2000, SAMPLES_LEAST = 9, WAIT_MS = 300000 };

#define SECONDS_OF_A_SIZE 0.5

static void need(tfos_status status, const char *what, const tfos_error *error)
{
    if (status != TFOS_OK) {
        swarm_stop(what, error->message);
    }
}

/* ---- the program of a node ---- */

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare);
    return samples[count / 2];
}

static void add_up(tfos_group *group, float *numbers, size_t bytes)
{
    tfos_error error;
    const tfos_part part = {.merge = TFOS_MERGE_SUM,
                            .dimensions = 1,
                            .shape = {(int64_t)(bytes / sizeof *numbers)},
                            .input = numbers,
                            .output = numbers};
    need(tfos_group_call(group, &part, 1, NULL, NULL, &error), "a call", &error);
}

/* All workers have to make as many calls: the first one says how many. */
static size_t agree_on_samples(tfos_group *group, double seconds)
{
    tfos_error error;
    double wished = SECONDS_OF_A_SIZE / seconds;
    int64_t count = wished > SAMPLES_MOST ? SAMPLES_MOST : wished < SAMPLES_LEAST ? SAMPLES_LEAST : (int64_t)wished;
    const tfos_part part = {
        .element = TFOS_ELEMENT_INT64, .merge = TFOS_MERGE_BROADCAST, .input = &count, .output = &count};
    need(tfos_group_call(group, &part, 1, NULL, NULL, &error), "a call", &error);
    return (size_t)count;
}

static double time_calls(tfos_group *group, float *numbers, size_t bytes, double *samples)
{
    add_up(group, numbers, bytes);
    double begin = swarm_seconds();
    add_up(group, numbers, bytes);
    size_t count = agree_on_samples(group, swarm_seconds() - begin);
    for (size_t i = 0; i < count; i++) {
        begin = swarm_seconds();
        add_up(group, numbers, bytes);
        samples[i] = swarm_seconds() - begin;
    }
    return median(samples, count);
}

static double time_copies(void *to, const void *from, size_t bytes, double *samples)
{
    for (size_t i = 0; i < SAMPLES_LEAST; i++) {
        double begin = swarm_seconds();
        memcpy(to, from, bytes);
        samples[i] = swarm_seconds() - begin;
    }
    return median(samples, SAMPLES_LEAST);
}

static const size_t sizes[] = {4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20};

_Noreturn static void call_all(size_t most, const char *path)
{
    static double samples[SAMPLES_MOST];
    tfos_group *group;
    tfos_error error;
    need(tfos_group_open(NULL, &group, &error), "the group", &error);
    float *numbers = calloc(1, most);
    float *copy = calloc(1, most);
    bool first = tfos_group_rank(group) == 0;
    FILE *file = first ? fopen(path, "w") : NULL;
    if (numbers == NULL || copy == NULL || (first && file == NULL)) {
        swarm_stop("memory, or a file", path);
    }
    memset(copy, 1, most);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= most; i++) {
        size_t bytes = sizes[i];
        double call = time_calls(group, numbers, bytes, samples);
        if (first) {
            fprintf(file, "%zu %.9f %.9f\n", bytes, call, time_copies(copy, numbers, bytes, samples));
        }
        /* The others wait for the copies, asleep. */
        need(tfos_group_call(group, NULL, 0, NULL, NULL, &error), "a barrier", &error);
    }
    if (file != NULL) {
        fclose(file);
    }
    tfos_group_close(group);
    exit(0);
}

/* ---- the driver ---- */

static void await(tfos_cluster *cluster, tfos_cluster_event_kind kind)
{
    double end = swarm_seconds() + WAIT_MS / 1000.0;
    for (tfos_cluster_event event = {.kind = TFOS_EVENT_NONE}; event.kind != kind;) {
        tfos_error error;
        need(tfos_cluster_next(cluster, 100, &event, &error), "the coordinator", &error);
        if (event.kind == TFOS_EVENT_FAILED || swarm_seconds() > end) {
            swarm_stop("the workers", event.kind == TFOS_EVENT_FAILED ? event.text : "take too long");
        }
    }
}

static void print_results(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t bytes;
    double call;
    double copy;
    const char *between = "";
    if (file == NULL) {
        swarm_stop("no results in", path);
    }
    printf("[");
    while (fscanf(file, "%zu %lf %lf", &bytes, &call, &copy) == 3) {
        printf("%s{\"bytes\": %zu, \"call_us\": %.1f, \"copy_us\": %.1f}", between, bytes, 1e6 * call, 1e6 * copy);
        between = ", ";
    }
    printf("]\n");
    fclose(file);
}

int main(int argc, char **argv)
{
    char self[512] = "";
    char folder[300];
    char path[330];
    char setting[32];
    tfos_cluster_options options;
    tfos_cluster *cluster;
    tfos_error error;
    if (argc == 4 && strcmp(argv[1], "program") == 0) {
        call_all(strtoull(argv[2], NULL, 10), argv[3]);
    }
    if (argc != 4 || readlink("/proc/self/exe", self, sizeof self - 1) <= 0 || getcwd(folder, sizeof folder) == NULL) {
        swarm_stop("usage", "collective_calls WORKERS SHARED MOST_BYTES");
    }
    snprintf(path, sizeof path, "%s/calls.txt", folder);
    const char *const program[] = {self, "program", argv[3], path, NULL};
    snprintf(setting, sizeof setting, "collective.shared=%s", argv[2]);
    const char *const settings[] = {setting, NULL};
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = (int32_t)strtol(argv[1], NULL, 10);
    options.host = "127.0.0.1";
    options.program = program;
    options.settings = settings;
    options.folder = folder;
    need(tfos_cluster_open(&options, &cluster, &error), "the cluster", &error);
    for (int32_t i = 0; i < options.nodes; i++) {
        need(tfos_cluster_spawn(cluster, i, &error), "a node", &error);
    }
    await(cluster, TFOS_EVENT_READY);
    need(tfos_cluster_finish(cluster, 0, &error), "the end", &error);
    await(cluster, TFOS_EVENT_OVER);
    print_results(path);
    tfos_cluster_close(cluster);
    return 0;
}

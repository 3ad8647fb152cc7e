/* Measures libtfos through its public header. One run does one work, so that each starts with a fresh process, and
 * prints one line of JSON: the seconds of each pass, what a pass handled, and the memory of the process.
 *
 *   records_bench scalars|image PATH ROWS             make a data file
 *   records_bench parse|infer|verify|pread PATH THREADS PASSES
 *   records_bench write PATH THREADS PASSES OUT       the records of PATH, read before the clock starts, to OUT
 *   records_bench memcpy BYTES THREADS PASSES */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "records_data.h"

enum { MAX_PASSES = 100, PREAD_BYTES = 1 << 20 };

typedef struct job {
    const char *path;
    const char *out;
    int passes;
    tfos_paths *paths;
    tfos_read_options options;
    tfos_schema *schema;
    tfos_batch **batches; /* of write */
    size_t batch_count;
} job;

typedef struct result {
    double seconds[MAX_PASSES];
    double close_seconds; /* of the fastest pass: the share of flush and fsync in a write */
    int64_t records;
    int64_t bytes;
    int64_t memory_bytes;
} result;

static tfos_error error;

static void check(tfos_status status)
{
    if (status != TFOS_OK) {
        fprintf(stderr, "records_bench: %s: %s\n", tfos_status_text(status), error.message);
        exit(1);
    }
}

static void fail(const char *what)
{
    fprintf(stderr, "records_bench: ");
    perror(what);
    exit(1);
}

static void *grown(void *memory, size_t bytes)
{
    memory = realloc(memory, bytes);
    if (memory == NULL) {
        fail("memory");
    }
    return memory;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The most memory that this program has held. Not getrusage: after fork and exec its figure begins with that of the
 * parent. */
static int64_t peak_bytes(void)
{
    char line[256];
    long kilobytes = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "VmHWM: %ld kB", &kilobytes) == 1) {
            break;
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return kilobytes * 1024;
}

/* ---- works: each function is one pass ---- */

static void parse(job *job, result *result)
{
    tfos_reader *reader;
    tfos_batch *batch;
    tfos_progress progress;
    tfos_status status;
    check(tfos_reader_open(job->paths, &job->options, &reader, &error));
    while ((status = tfos_reader_next(reader, &batch, &error)) == TFOS_OK) {
        tfos_batch_free(batch);
    }
    check(status == TFOS_END ? TFOS_OK : status);
    tfos_reader_progress(reader, &progress);
    tfos_reader_close(reader);
    result->records = progress.records;
    result->memory_bytes = progress.memory_bytes;
    result->bytes = job->paths->total_bytes;
}

static void infer(job *job, result *result)
{
    tfos_schema *schema;
    check(tfos_schema_infer(job->paths, &job->options, &schema, &error));
    tfos_schema_free(schema);
    result->bytes = job->paths->total_bytes;
}

static void verify(job *job, result *result)
{
    tfos_progress progress = {0};
    check(tfos_records_verify(job->paths, &job->options, false, NULL, NULL, &progress, &error));
    if (progress.skipped_records != 0) {
        fprintf(stderr, "records_bench: %s is damaged; remove it, it is made again\n", job->path);
        exit(1);
    }
    result->records = progress.records;
    result->memory_bytes = progress.memory_bytes;
    result->bytes = job->paths->total_bytes;
}

static void write_batches(job *job, result *result)
{
    tfos_write_options options;
    tfos_writer *writer;
    tfos_write_options_init(&options, sizeof options);
    options.overwrite = true;
    check(tfos_writer_open(job->out, &options, &writer, &error));
    for (size_t i = 0; i < job->batch_count; i++) {
        check(tfos_writer_write_batch(writer, job->batches[i], &error));
    }
    result->records = tfos_writer_records(writer);
    result->bytes = job->paths->total_bytes;
    double start = now();
    check(tfos_writer_close(writer, &error));
    double seconds = now() - start;
    result->close_seconds =
        result->close_seconds == 0 || seconds < result->close_seconds ? seconds : result->close_seconds;
}

static void read_file(job *job, result *result)
{
    static char buffer[PREAD_BYTES];
    ssize_t count;
    int file = open(job->path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        fail(job->path);
    }
    result->bytes = 0;
    while ((count = pread(file, buffer, sizeof buffer, result->bytes)) > 0) {
        result->bytes += count;
    }
    if (count < 0) {
        fail(job->path);
    }
    close(file);
}

static void copy_memory(job *job, result *result)
{
    static char *from, *to;
    size_t bytes = (size_t)atoll(job->path);
    if (from == NULL) {
        from = memset(grown(NULL, bytes), 1, bytes);
        to = memset(grown(NULL, bytes), 2, bytes);
    }
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to) : "memory"); /* or the compiler leaves the copy out */
    result->bytes = (int64_t)bytes;
}

/* ---- around them ---- */

static void open_input(job *job)
{
    const char *inputs[] = {job->path};
    check(tfos_paths_expand(inputs, 1, &job->paths, &error));
    check(tfos_schema_infer(job->paths, &job->options, &job->schema, &error));
    job->options.schema = job->schema;
}

static void load_batches(job *job)
{
    tfos_reader *reader;
    tfos_batch *batch;
    tfos_status status;
    check(tfos_reader_open(job->paths, &job->options, &reader, &error));
    while ((status = tfos_reader_next(reader, &batch, &error)) == TFOS_OK) {
        job->batches = grown(job->batches, (job->batch_count + 1) * sizeof *job->batches);
        job->batches[job->batch_count++] = batch;
    }
    check(status == TFOS_END ? TFOS_OK : status);
    tfos_reader_close(reader);
}

static void print(const result *result, int passes, int64_t peak_before)
{
    printf("{\"seconds\": [");
    for (int i = 0; i < passes; i++) {
        printf("%s%.9f", i == 0 ? "" : ", ", result->seconds[i]);
    }
    printf("], \"close_seconds\": %.9f, \"records\": %lld, \"bytes\": %lld, \"memory_bytes\": %lld, "
           "\"peak_before_bytes\": %lld, \"peak_bytes\": %lld}\n",
           result->close_seconds, (long long)result->records, (long long)result->bytes, (long long)result->memory_bytes,
           (long long)peak_before, (long long)peak_bytes());
}

static void run(void (*work)(job *, result *), job *job)
{
    result result = {0};
    int64_t peak_before = peak_bytes();
    for (int i = 0; i < job->passes; i++) {
        double start = now();
        work(job, &result);
        result.seconds[i] = now() - start;
    }
    print(&result, job->passes, peak_before);
}

static int usage(void)
{
    fputs("usage: records_bench scalars|image PATH ROWS\n"
          "       records_bench parse|infer|verify|pread|write PATH THREADS PASSES [OUT]\n"
          "       records_bench memcpy BYTES THREADS PASSES\n",
          stderr);
    return 2;
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*function)(job *, result *);
        bool reads_records;
    } works[] = {
        {"parse", parse, true},         {"infer", infer, true},      {"verify", verify, true},
        {"write", write_batches, true}, {"pread", read_file, false}, {"memcpy", copy_memory, false},
    };
    if (count == 4 && strcmp(arguments[1], "scalars") == 0) {
        check(make_scalars(arguments[2], atoll(arguments[3]), &error));
        return 0;
    }
    if (count == 4 && strcmp(arguments[1], "image") == 0) {
        check(make_image(arguments[2], atoll(arguments[3]), &error));
        return 0;
    }
    for (size_t i = 0; count >= 5 && i < sizeof works / sizeof works[0]; i++) {
        job job = {.path = arguments[2], .out = arguments[5], .passes = atoi(arguments[4])};
        if (strcmp(arguments[1], works[i].name) != 0 || job.passes < 1 || job.passes > MAX_PASSES) {
            continue;
        }
        tfos_read_options_init(&job.options, sizeof job.options);
        job.options.threads = atoi(arguments[3]);
        if (works[i].reads_records) {
            open_input(&job);
        }
        if (works[i].function == write_batches) {
            load_batches(&job);
        }
        run(works[i].function, &job);
        return 0;
    }
    return usage();
}

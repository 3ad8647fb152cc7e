#include "helper_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/wire.h"
#include "helper_text.h"
#include "record/codec.h"
#include "record/frame.h"

/* ---- memory that lives until the teardown ---- */

typedef struct kept {
    struct kept *next;
    _Alignas(16) uint8_t data[];
} kept;

static kept *all_kept;

static void *keep(size_t bytes)
{
    kept *block = calloc(1, sizeof *block + bytes + 1);
    assert_non_null(block);
    block->next = all_kept;
    all_kept = block;
    return block->data;
}

static void forget_all(void)
{
    while (all_kept != NULL) {
        kept *next = all_kept->next;
        free(all_kept);
        all_kept = next;
    }
}

/* ---- folder ---- */

int helper_setup(void **state)
{
    const char *base = getenv("TMPDIR");
    char *folder = malloc(PATH_MAX);
    assert_non_null(folder);
    snprintf(folder, PATH_MAX, "%s/test-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    *state = folder;
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

int helper_teardown(void **state)
{
    int result = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    forget_all();
    return result;
}

const char *helper_path(void *const *state, const char *name)
{
    size_t bytes = strlen(*state) + strlen(name) + 2;
    char *path = keep(bytes);
    snprintf(path, bytes, "%s/%s", (const char *)*state, name);
    return path;
}

/* ---- bytes ---- */

helper_bytes helper_copy(const void *data, size_t count)
{
    uint8_t *copy = keep(count);
    if (count > 0) {
        memcpy(copy, data, count);
    }
    return (helper_bytes){copy, count};
}

helper_bytes helper_from_text(const char *text)
{
    return helper_copy(text, strlen(text));
}

helper_bytes helper_join(const helper_bytes *parts, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts[i].count;
    }
    uint8_t *data = keep(total);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].count > 0) {
            memcpy(data + at, parts[i].data, parts[i].count);
        }
        at += parts[i].count;
    }
    return (helper_bytes){data, total};
}

helper_bytes helper_part(helper_bytes whole, size_t from, size_t to)
{
    assert_true(from <= to && to <= whole.count);
    return (helper_bytes){whole.data + from, to - from};
}

helper_bytes helper_repeat(uint8_t byte, size_t count)
{
    uint8_t *data = keep(count);
    memset(data, byte, count);
    return (helper_bytes){data, count};
}

helper_bytes helper_of_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t count = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = keep(count);
    assert_int_equal(fread(data, 1, count, file), count);
    fclose(file);
    return (helper_bytes){data, count};
}

void helper_to_file(const char *path, helper_bytes bytes)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(descriptor >= 0);
    size_t at = 0;
    while (at < bytes.count) {
        ssize_t written = write(descriptor, bytes.data + at, bytes.count - at);
        assert_true(written > 0);
        at += (size_t)written;
    }
    assert_int_equal(close(descriptor), 0);
}

size_t helper_count_files(const char *folder)
{
    size_t count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(listing);
    return count;
}

bool helper_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool helper_equal(helper_bytes left, helper_bytes right)
{
    return left.count == right.count && (left.count == 0 || memcmp(left.data, right.data, left.count) == 0);
}

/* xorshift64* */
uint64_t helper_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* ---- messages ---- */

helper_bytes helper_varint(uint64_t value)
{
    uint8_t bytes[10];
    return helper_copy(bytes, (size_t)(tfos__wire_put_varint(bytes, value) - bytes));
}

helper_bytes helper_number_field(uint32_t field, uint64_t value)
{
    return JOIN(helper_varint(TFOS__WIRE_TAG(field, TFOS__WIRE_VARINT)), helper_varint(value));
}

helper_bytes helper_bytes_field(uint32_t field, helper_bytes value)
{
    return JOIN(helper_varint(TFOS__WIRE_TAG(field, TFOS__WIRE_BYTES)), helper_varint(value.count), value);
}

helper_bytes helper_float_field(uint32_t field, float value)
{
    return JOIN(helper_varint(TFOS__WIRE_TAG(field, TFOS__WIRE_FIXED32)), helper_copy(&value, sizeof value));
}

helper_bytes helper_packed_ints(const int64_t *values, size_t count)
{
    uint8_t *data = keep(count * 10);
    uint8_t *to = data;
    for (size_t i = 0; i < count; i++) {
        to = tfos__wire_put_varint(to, (uint64_t)values[i]);
    }
    return (helper_bytes){data, (size_t)(to - data)};
}

helper_bytes helper_packed_floats(const float *values, size_t count)
{
    return helper_copy(values, count * sizeof *values);
}

helper_bytes helper_strings(const char *const *values, size_t count)
{
    helper_bytes list = {0};
    for (size_t i = 0; i < count; i++) {
        list = JOIN(list, helper_bytes_field(1, helper_from_text(values[i])));
    }
    return helper_bytes_field(1, list);
}

helper_bytes helper_entry(const char *name, helper_bytes value)
{
    return helper_bytes_field(1, JOIN(helper_bytes_field(1, helper_from_text(name)), helper_bytes_field(2, value)));
}

/* ---- files of records ---- */

helper_bytes helper_header(uint64_t length)
{
    uint8_t header[TFOS__FRAME_HEADER_BYTES];
    tfos__frame_put_header(header, length);
    return helper_copy(header, sizeof header);
}

helper_bytes helper_frame(helper_bytes payload)
{
    uint8_t footer[TFOS__FRAME_FOOTER_BYTES];
    tfos__frame_put_footer(footer, payload.data, payload.count);
    return JOIN(helper_header(payload.count), payload, helper_copy(footer, sizeof footer));
}

helper_bytes helper_deflate(helper_bytes bytes, tfos_codec codec)
{
    tfos__deflater *deflater;
    tfos__buffer out = {0};
    assert_int_equal(tfos__deflater_new(codec, -1, &deflater, NULL), TFOS_OK);
    assert_int_equal(tfos__deflater_run(deflater, bytes.data, bytes.count, true, &out, NULL), TFOS_OK);
    tfos__deflater_free(deflater);
    helper_bytes copy = helper_copy(out.data, out.size);
    tfos__buffer_reset(&out);
    return copy;
}

/* ---- reading ---- */

tfos_schema *helper_schema(const char *json)
{
    tfos_schema *schema = NULL;
    tfos_error error = {0};
    if (tfos_schema_from_json(json, strlen(json), &schema, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return schema;
}

tfos_read_options helper_raw_options(void)
{
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.threads = 0;
    options.record = TFOS_RECORD_BYTES;
    return options;
}

const tfos_paths *helper_paths(const char *path)
{
    struct stat info;
    tfos_paths *paths = keep(sizeof *paths);
    paths->count = 1;
    paths->path = keep(sizeof *paths->path);
    paths->path[0] = keep(strlen(path) + 1);
    strcpy(paths->path[0], path);
    paths->bytes = keep(sizeof *paths->bytes);
    paths->bytes[0] = stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
    paths->total_bytes = paths->bytes[0];
    return paths;
}

static void take_records(helper_result *result, const tfos_batch *batch)
{
    size_t rows = (size_t)tfos_batch_rows(batch);
    const tfos_vector *vector = tfos_batch_column(batch, 0);
    helper_bytes *grown = keep((result->row_count + rows) * sizeof *grown);
    if (result->row_count > 0) {
        memcpy(grown, result->records, result->row_count * sizeof *grown);
    }
    for (size_t i = 0; i < rows; i++) {
        int32_t from = vector->offsets[i];
        grown[result->row_count + i] =
            helper_copy((const uint8_t *)vector->data + from, (size_t)(vector->offsets[i + 1] - from));
    }
    result->records = grown;
}

helper_result helper_read_paths(const tfos_paths *paths, const tfos_read_options *options)
{
    tfos_read_options raw = helper_raw_options();
    helper_result result = {0};
    tfos_reader *reader = NULL;
    tfos__buffer rows = {0};
    result.status = tfos_reader_open(paths, options != NULL ? options : &raw, &reader, &result.error);
    while (result.status == TFOS_OK) {
        tfos_batch *batch;
        result.status = tfos_reader_next(reader, &batch, &result.error);
        if (result.status != TFOS_OK) {
            break;
        }
        assert_true(tfos_batch_rows(batch) > 0);
        if (tfos_schema_kind(tfos_batch_schema(batch)) == TFOS_RECORD_BYTES) {
            take_records(&result, batch);
        } else {
            helper_show_batch(batch, &rows);
        }
        result.row_count += (size_t)tfos_batch_rows(batch);
        result.batch_count++;
        tfos_batch_free(batch);
    }
    if (reader != NULL) {
        tfos_reader_progress(reader, &result.progress);
        tfos_reader_close(reader);
    }
    result.rows = keep(rows.size + 1);
    if (rows.size > 0) {
        memcpy(result.rows, rows.data, rows.size);
    }
    tfos__buffer_reset(&rows);
    return result;
}

helper_result helper_read(const char *path, const tfos_read_options *options)
{
    return helper_read_paths(helper_paths(path), options);
}

/* ---- checks ---- */

void helper_expect_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("expected '%s' in: %s", part, text);
    }
}

void helper_expect_text(const char *found, const char *expected)
{
    if (strcmp(found, expected) != 0) {
        fail_msg("expected:\n%s\nfound:\n%s", expected, found);
    }
}

/* ---- processes ---- */

void helper_end_child(int code)
{
    syscall(SYS_exit_group, code);
    abort(); /* not reached */
}

void helper_run_within(size_t megabytes, void (*function)(const char *path), const char *path)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (file == NULL || fscanf(file, "%ld", &pages) != 1) {
            _exit(3);
        }
        fclose(file);
        struct rlimit limit = {.rlim_cur = (rlim_t)pages * 4096 + (megabytes << 20), .rlim_max = RLIM_INFINITY};
        if (!HELPER_SANITIZED && setrlimit(RLIMIT_AS, &limit) != 0) {
            _exit(4);
        }
        function(path);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void helper_need(bool condition)
{
    if (!condition) {
        _exit(1);
    }
}

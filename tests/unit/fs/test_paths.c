/* From what a user names to files: folders, globs, hidden names and what cannot be read. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/fs.h"
#include "helper_records.h"
#include "helper_text.h"

static void make_file(void **state, const char *name, size_t bytes)
{
    helper_to_file(helper_path(state, name), helper_repeat('x', bytes));
}

static void make_folder(void **state, const char *name)
{
    assert_int_equal(mkdir(helper_path(state, name), 0777), 0);
}

/* Expands FOLDER/NAME and compares the names below FOLDER, joined by spaces. */
static void expect_files(void **state, const char *name, const char *expected)
{
    tfos_paths *paths = NULL;
    tfos_error error = {0};
    const char *input = helper_path(state, name);
    if (tfos_paths_expand(&input, 1, &paths, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    tfos__buffer text = {0};
    int64_t total = 0;
    for (size_t i = 0; i < paths->count; i++) {
        struct stat info;
        assert_int_equal(strncmp(paths->path[i], *state, strlen(*state)), 0);
        assert_int_equal(
            tfos__buffer_printf(&text, NULL, "%s%s", i > 0 ? " " : "", paths->path[i] + strlen(*state) + 1), TFOS_OK);
        assert_int_equal(stat(paths->path[i], &info), 0);
        assert_int_equal(paths->bytes[i], info.st_size);
        total += paths->bytes[i];
    }
    assert_int_equal(paths->total_bytes, total);
    char *found = helper_string(&text);
    helper_expect_text(found, expected);
    free(found);
    tfos__buffer_reset(&text);
    tfos_paths_free(paths);
}

static void expect_failure(const char *input, tfos_status status, const char *why)
{
    tfos_paths *paths = NULL;
    tfos_error error = {0};
    tfos_status found = tfos_paths_expand(&input, 1, &paths, &error);
    if (found != status) {
        fail_msg("expected %s, found %s: %s", tfos_status_name(status), tfos_status_name(found), error.message);
    }
    helper_expect_in(error.message, why);
    assert_null(paths);
}

static void test_files(void **state)
{
    make_file(state, "a", 3);
    make_file(state, "_hidden", 1);
    make_file(state, ".dot", 1);
    make_file(state, "a.tfindex", 1);
    expect_files(state, "a", "a");
    expect_files(state, "./a", "./a");
    /* A name that is given is read, hidden or not. */
    expect_files(state, "_hidden", "_hidden");
    expect_files(state, ".dot", ".dot");
    expect_files(state, "a.tfindex", "a.tfindex");
}

static void test_several_inputs_stay_in_order(void **state)
{
    make_file(state, "a", 1);
    make_file(state, "b", 2);
    const char *inputs[] = {helper_path(state, "b"), helper_path(state, "a"), helper_path(state, "b")};
    tfos_paths *paths = NULL;
    assert_int_equal(tfos_paths_expand(inputs, 3, &paths, NULL), TFOS_OK);
    assert_int_equal(paths->count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(paths->path[i], inputs[i]);
    }
    assert_int_equal(paths->total_bytes, 5);
    tfos_paths_free(paths);
    tfos_paths_free(NULL);
}

static void test_folders(void **state)
{
    make_folder(state, "data");
    make_file(state, "data/part-2", 1);
    make_file(state, "data/part-10", 1);
    make_file(state, "data/part-1", 1);
    make_file(state, "data/_SUCCESS", 0);
    make_file(state, "data/.part-1.crc", 1);
    make_file(state, "data/part-1.tfindex", 1);
    make_folder(state, "data/day=1");
    make_file(state, "data/day=1/part-0", 0);
    make_folder(state, "data/_temporary");
    make_file(state, "data/_temporary/part-0", 1);
    make_folder(state, "data/zz-empty");
    expect_files(state, "data", "data/day=1/part-0 data/part-1 data/part-10 data/part-2");
    expect_files(state, "data/", "data/day=1/part-0 data/part-1 data/part-10 data/part-2");
    expect_files(state, "data///", "data/day=1/part-0 data/part-1 data/part-10 data/part-2");
    /* A folder that is given is listed, hidden or not. */
    expect_files(state, "data/_temporary", "data/_temporary/part-0");
}

static void test_many_files(void **state)
{
    make_folder(state, "many");
    char name[32];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "many/%03d", i);
        make_file(state, name, (size_t)i);
    }
    tfos_paths *paths = NULL;
    const char *input = helper_path(state, "many");
    assert_int_equal(tfos_paths_expand(&input, 1, &paths, NULL), TFOS_OK);
    assert_int_equal(paths->count, 300);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(paths->bytes[i], i);
    }
    tfos_paths_free(paths);
}

static void test_globs(void **state)
{
    make_folder(state, "a");
    make_folder(state, "b");
    make_file(state, "a/x-1.tfrecord", 1);
    make_file(state, "a/x-2.tfrecord", 1);
    make_file(state, "a/x-1.tfrecord.tfindex", 1);
    make_file(state, "a/_x-3.tfrecord", 1);
    make_file(state, "b/x-1.tfrecord", 1);
    expect_files(state, "a/*", "a/x-1.tfrecord a/x-2.tfrecord");
    expect_files(state, "a/x-?.tfrecord", "a/x-1.tfrecord a/x-2.tfrecord");
    expect_files(state, "*/x-1*", "a/x-1.tfrecord b/x-1.tfrecord");
    expect_files(state, "[b-z]", "b/x-1.tfrecord"); /* a folder that matches is listed */
    expect_files(state, "[!b]/x-[2-9].tfrecord", "a/x-2.tfrecord");
    expect_failure(helper_path(state, "c*"), TFOS_NOT_FOUND, "no file or folder matches");
    expect_failure(helper_path(state, "a/_*"), TFOS_NOT_FOUND, "only hidden files match");
}

/* Names are in the order of their bytes, as in a folder, whatever the locale says of letters. */
static void test_globs_have_the_order_of_folders(void **state)
{
    static const char *const locales[] = {"en_US.UTF-8", "de_DE.UTF-8", "en_GB.UTF-8", "fr_FR.UTF-8"};
    make_folder(state, "d");
    make_file(state, "d/a", 1);
    make_file(state, "d/B", 1);
    make_file(state, "d/c", 1);
    expect_files(state, "d/*", "d/B d/a d/c");
    expect_files(state, "d", "d/B d/a d/c");
    bool other = false;
    for (size_t i = 0; i < sizeof locales / sizeof locales[0] && !other; i++) {
        other = setlocale(LC_COLLATE, locales[i]) != NULL;
    }
    if (other) {
        expect_files(state, "d/*", "d/B d/a d/c");
        expect_files(state, "d", "d/B d/a d/c");
        setlocale(LC_COLLATE, "C");
    }
}

static void test_a_name_with_a_star_is_that_file(void **state)
{
    make_file(state, "a*", 1);
    make_file(state, "ab", 1);
    expect_files(state, "a*", "a*");
    expect_files(state, "a?", "a* ab");
    make_folder(state, "d[1]");
    make_file(state, "d[1]/x", 1);
    expect_files(state, "d[1]", "d[1]/x");
}

static void test_what_is_not_there(void **state)
{
    make_folder(state, "empty");
    make_file(state, "file", 1);
    expect_failure(helper_path(state, "missing"), TFOS_NOT_FOUND, "missing: cannot be opened");
    expect_failure(helper_path(state, "file/below"), TFOS_NOT_FOUND, "file/below");
    expect_failure(helper_path(state, "empty"), TFOS_NOT_FOUND, "the folder holds no data file");
    make_file(state, "empty/_SUCCESS", 0);
    expect_failure(helper_path(state, "empty"), TFOS_NOT_FOUND, "names that begin with '_' or '.'");
    expect_failure("", TFOS_NOT_FOUND, "No such file");
    tfos_paths *paths = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_paths_expand(NULL, 0, &paths, &error), TFOS_INVALID);
    /* One that is wrong spoils all. */
    const char *inputs[] = {helper_path(state, "file"), helper_path(state, "missing")};
    assert_int_equal(tfos_paths_expand(inputs, 2, &paths, &error), TFOS_NOT_FOUND);
    assert_null(paths);
}

static void test_schemes(void **state)
{
    make_file(state, "a", 1);
    tfos_paths *paths = NULL;
    char input[4096];
    static const char *const prefixes[] = {"file:", "file://", "file:///"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(input, sizeof input, "%s%s", prefixes[i], helper_path(state, "a"));
        const char *inputs[] = {input};
        assert_int_equal(tfos_paths_expand(inputs, 1, &paths, NULL), TFOS_OK);
        assert_string_equal(paths->path[0], helper_path(state, "a"));
        tfos_paths_free(paths);
    }
    expect_failure("s3a://bucket/key", TFOS_UNSUPPORTED, "the scheme 's3a' is not supported here");
    expect_failure("hdfs:/x", TFOS_UNSUPPORTED, "'hdfs'");
    expect_failure("filex:///x", TFOS_UNSUPPORTED, "'filex'");
    /* A colon alone makes no scheme. */
    make_file(state, "part:0", 1);
    expect_files(state, "part:0", "part:0");
}

static void test_links(void **state)
{
    make_folder(state, "real");
    make_file(state, "real/x", 2);
    assert_int_equal(symlink("real", helper_path(state, "link")), 0);
    assert_int_equal(symlink("x", helper_path(state, "real/y")), 0);
    expect_files(state, "link", "link/x link/y");
    assert_int_equal(symlink("loop", helper_path(state, "loop")), 0);
    expect_failure(helper_path(state, "loop"), TFOS_IO, "loop: cannot be opened");
    assert_int_equal(symlink("..", helper_path(state, "real/up")), 0);
    expect_failure(helper_path(state, "real"), TFOS_INVALID, "contains itself through a link");
    assert_int_equal(unlink(helper_path(state, "real/up")), 0);
    assert_int_equal(symlink("nowhere", helper_path(state, "real/dangling")), 0);
    expect_failure(helper_path(state, "real"), TFOS_NOT_FOUND, "real/dangling");
}

/* root may read everything, so the test becomes nobody for a while. */
static void test_no_permission(void **state)
{
    enum { NOBODY = 65534 };
    bool root = geteuid() == 0;
    make_folder(state, "open");
    make_folder(state, "open/closed");
    make_file(state, "open/closed/x", 1);
    assert_int_equal(chmod(*state, 0755), 0);
    assert_int_equal(chmod(helper_path(state, "open/closed"), 0), 0);
    make_file(state, "secret", 1);
    assert_int_equal(chmod(helper_path(state, "secret"), 0), 0);
    if (root) {
        assert_int_equal(seteuid(NOBODY), 0);
    }
    bool reachable = eaccess(*state, X_OK) == 0; /* the folders above it may be closed to nobody */
    if (reachable) {
        expect_failure(helper_path(state, "open"), TFOS_PERMISSION, "open/closed: cannot be listed");
        expect_failure(helper_path(state, "open/closed/x"), TFOS_PERMISSION, "cannot be opened");
        expect_failure(helper_path(state, "open/closed/*"), TFOS_PERMISSION, "");
        tfos__file *file = NULL;
        tfos_error error = {0};
        assert_int_equal(tfos__file_open(NULL, helper_path(state, "secret"), &file, &error), TFOS_PERMISSION);
        helper_expect_in(error.message, "secret: cannot be opened for reading: Permission denied");
    }
    if (root) {
        assert_int_equal(seteuid(0), 0);
    }
    assert_int_equal(chmod(helper_path(state, "open/closed"), 0755), 0);
    if (!reachable) {
        skip();
    }
}

/* ---- files for reading ---- */

static void test_read_by_position(void **state)
{
    helper_to_file(helper_path(state, "a"), helper_from_text("0123456789"));
    tfos__file *file = NULL;
    tfos_error error = {0};
    char bytes[16];
    size_t got;
    assert_int_equal(tfos__file_open(NULL, helper_path(state, "a"), &file, &error), TFOS_OK);
    assert_int_equal(tfos__file_size(file), 10);
    assert_string_equal(tfos__file_path(file), helper_path(state, "a"));
    assert_int_equal(tfos__file_read(file, 7, bytes, sizeof bytes, &got, &error), TFOS_OK);
    assert_int_equal(got, 3);
    assert_memory_equal(bytes, "789", 3);
    assert_int_equal(tfos__file_read(file, 10, bytes, sizeof bytes, &got, &error), TFOS_OK);
    assert_int_equal(got, 0);
    assert_int_equal(tfos__file_read(file, 1000, bytes, sizeof bytes, &got, &error), TFOS_OK);
    assert_int_equal(got, 0);
    tfos__file_close(file);
    tfos__file_close(NULL);
    assert_int_equal(tfos__file_open(NULL, *state, &file, &error), TFOS_INVALID);
    helper_expect_in(error.message, "expected a file, found a folder");
}

static void test_slurp_has_a_limit(void **state)
{
    make_file(state, "a", 100000);
    tfos__buffer bytes = {0};
    tfos_error error = {0};
    assert_int_equal(tfos__file_slurp(NULL, helper_path(state, "a"), 100000, &bytes, &error), TFOS_OK);
    assert_int_equal(bytes.size, 100000);
    tfos__buffer_reset(&bytes);
    assert_int_equal(tfos__file_slurp(NULL, helper_path(state, "a"), 99999, &bytes, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "expected at most 99999 bytes");
    tfos__buffer_reset(&bytes);
}

static void test_make_folders(void **state)
{
    struct stat info;
    assert_int_equal(tfos__folder_make(helper_path(state, "a/b/c"), NULL), TFOS_OK);
    assert_int_equal(tfos__folder_make(helper_path(state, "a/b/c/"), NULL), TFOS_OK);
    assert_int_equal(stat(helper_path(state, "a/b/c"), &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    make_file(state, "file", 1);
    tfos_error error = {0};
    assert_int_equal(tfos__folder_make(helper_path(state, "file/x"), &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "file: the folder cannot be made");
    assert_int_equal(tfos__folder_make("", &error), TFOS_INVALID);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

/* ---- who would read a folder ---- */

/* Whether files of FOLDER/PLACE would be listed by FOLDER/INPUT: the name of the folder that lists them, or NULL. */
static void expect_reader(void **state, const char *input, const char *place, const char *expected)
{
    char *names[2] = {strdup(helper_path(state, input)), strdup(helper_path(state, place))};
    const char *inputs[] = {"hdfs://elsewhere/data", names[0]};
    char *reader = tfos__paths_find_reader(inputs, 2, names[1]);
    if (expected == NULL || reader == NULL) {
        assert_true(expected == NULL && reader == NULL);
    } else {
        assert_string_equal(reader, helper_path(state, expected));
    }
    free(reader);
    free(names[0]);
    free(names[1]);
}

static void test_what_would_be_read(void **state)
{
    make_folder(state, "data");
    make_folder(state, "data/day");
    make_file(state, "data/day/one", 1);
    make_folder(state, "_hidden");
    assert_int_equal(symlink("data", helper_path(state, "link")), 0);
    expect_reader(state, "data", "data", "data");
    expect_reader(state, "data", "data/run", "data");
    expect_reader(state, "data", "data/new/deep/run", "data");
    expect_reader(state, "data", "data/day/../run", "data");
    expect_reader(state, "data", "link/run", "data");
    expect_reader(state, "link", "data/run", "link");
    expect_reader(state, "d*", "data/run", "data");
    expect_reader(state, "data/*", "data/day/run", "data/day");
    expect_reader(state, "data/*", "data/new", "data/new");
    expect_reader(state, "data/*", "data/new/run", "data/new");
    expect_reader(state, "data/*/", "data/new/run", "data/new");
    expect_reader(state, "da*/new", "data/new/run", "data/new");
    expect_reader(state, "*/*/run", "data/new/run", "data/new/run");
    expect_reader(state, "link/n?w", "data/new/run", "data/new");
    expect_reader(state, "absent*", "absent/run", "absent");
    expect_reader(state, "_hidden", "_hidden/run", "_hidden"); /* who names it wants it */
    expect_reader(state, "data", "data-2/run", NULL);
    expect_reader(state, "data/day", "data/run", NULL);
    expect_reader(state, "data/day/one", "data/day/run", NULL);
    expect_reader(state, "data/day/one", "data/day/one", NULL);
    expect_reader(state, "data/*.tfrecord", "data/run", NULL);
    expect_reader(state, "data/*", "data/_run", NULL);
    expect_reader(state, "data/*", "data/run/_deep", NULL);
    expect_reader(state, "data/*/x", "data/run", NULL);
    expect_reader(state, "*", "data-2", "data-2");
    expect_reader(state, "data", "data/_run", NULL);
    expect_reader(state, "data", "data/.new/run", NULL);
    expect_reader(state, "*", "_hidden/run", NULL);
    expect_reader(state, "absent", "absent/run", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_files),
        IN_FOLDER(test_several_inputs_stay_in_order),
        IN_FOLDER(test_folders),
        IN_FOLDER(test_many_files),
        IN_FOLDER(test_globs),
        IN_FOLDER(test_globs_have_the_order_of_folders),
        IN_FOLDER(test_a_name_with_a_star_is_that_file),
        IN_FOLDER(test_what_is_not_there),
        IN_FOLDER(test_schemes),
        IN_FOLDER(test_links),
        IN_FOLDER(test_no_permission),
        IN_FOLDER(test_read_by_position),
        IN_FOLDER(test_slurp_has_a_limit),
        IN_FOLDER(test_make_folders),
        IN_FOLDER(test_what_would_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files that appear whole or not at all. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/fs.h"
#include "helper_records.h"

static tfos__output *open_output(const char *path, bool overwrite)
{
    tfos__output *output = NULL;
    tfos_error error = {0};
    if (tfos__output_open(NULL, path, overwrite, &output, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return output;
}

static void write_text(tfos__output *output, const char *text)
{
    assert_int_equal(tfos__output_write(output, text, strlen(text), NULL), TFOS_OK);
}

static void expect_content(const char *path, const char *text)
{
    assert_true(helper_equal(helper_of_file(path), helper_from_text(text)));
}

static void test_a_file_appears_on_commit(void **state)
{
    const char *path = helper_path(state, "out");
    tfos__output *output = open_output(path, false);
    write_text(output, "half");
    assert_false(helper_exists(path));
    assert_int_equal(helper_count_files(*state), 1); /* hidden, beside its name */
    tfos_paths *paths = NULL;
    const char *folder = *state;
    assert_int_equal(tfos_paths_expand(&folder, 1, &paths, NULL), TFOS_NOT_FOUND); /* listings do not see it */
    write_text(output, " and half");
    assert_int_equal(tfos__output_commit(output, NULL), TFOS_OK);
    expect_content(path, "half and half");
    assert_int_equal(helper_count_files(*state), 1);
}

static void test_an_abort_leaves_nothing(void **state)
{
    tfos__output *output = open_output(helper_path(state, "out"), false);
    write_text(output, "x");
    tfos__output_abort(output);
    assert_int_equal(helper_count_files(*state), 0);
    tfos__output_abort(NULL);
}

static void test_a_file_that_exists(void **state)
{
    const char *path = helper_path(state, "out");
    tfos__output *output = NULL;
    tfos_error error = {0};
    helper_to_file(path, helper_from_text("old"));
    assert_int_equal(tfos__output_open(NULL, path, false, &output, &error), TFOS_EXISTS);
    helper_expect_in(error.message, "out: exists already: remove it or ask to overwrite it");
    output = open_output(path, true);
    write_text(output, "new");
    expect_content(path, "old");
    assert_int_equal(tfos__output_commit(output, NULL), TFOS_OK);
    expect_content(path, "new");
    output = open_output(path, true);
    write_text(output, "newer");
    tfos__output_abort(output);
    expect_content(path, "new");
    assert_int_equal(helper_count_files(*state), 1);
}

static void test_a_name_that_is_taken_meanwhile(void **state)
{
    const char *path = helper_path(state, "out");
    tfos_error error = {0};
    tfos__output *output = open_output(path, false);
    write_text(output, "ours");
    helper_to_file(path, helper_from_text("theirs"));
    assert_int_equal(tfos__output_commit(output, &error), TFOS_EXISTS);
    helper_expect_in(error.message, "out: the finished file cannot take its name");
    expect_content(path, "theirs");
    assert_int_equal(helper_count_files(*state), 1);
}

static void test_two_writers_of_one_name(void **state)
{
    const char *path = helper_path(state, "out");
    tfos__output *first = open_output(path, true);
    tfos__output *second = open_output(path, true);
    write_text(first, "first");
    write_text(second, "second");
    assert_int_equal(tfos__output_commit(second, NULL), TFOS_OK);
    assert_int_equal(tfos__output_commit(first, NULL), TFOS_OK);
    expect_content(path, "first");
    assert_int_equal(helper_count_files(*state), 1);
}

/* In containers a process that died and the one that follows it have the same number: what the first left behind must
 * not stop the second. */
static void test_left_over_hidden_files(void **state)
{
    char name[64];
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, ".out.tfos-%d-%d", (int)getpid(), i);
        helper_to_file(helper_path(state, name), helper_from_text("left over"));
    }
    tfos__output *output = open_output(helper_path(state, "out"), false);
    write_text(output, "x");
    assert_int_equal(tfos__output_commit(output, NULL), TFOS_OK);
    expect_content(helper_path(state, "out"), "x");
    assert_int_equal(helper_count_files(*state), 65);
}

/* The hidden name is longer than the name; a name that may just be as long as it is must still work. */
static void test_the_longest_name(void **state)
{
    char name[256];
    memset(name, 'n', sizeof name - 1);
    name[255] = '\0';
    tfos__output *output = open_output(helper_path(state, name), false);
    write_text(output, "x");
    assert_int_equal(tfos__output_commit(output, NULL), TFOS_OK);
    expect_content(helper_path(state, name), "x");
    assert_int_equal(helper_count_files(*state), 1);
}

static void refuse(const char *path, tfos_status status, const char *why)
{
    tfos__output *output = NULL;
    tfos_error error = {0};
    tfos_status found = tfos__output_open(NULL, path, true, &output, &error);
    if (found != status) {
        fail_msg("%s: expected %s, found %s: %s", path, tfos_status_name(status), tfos_status_name(found),
                 error.message);
    }
    helper_expect_in(error.message, why);
    assert_null(output);
}

static void test_what_cannot_be_written(void **state)
{
    refuse("", TFOS_INVALID, "cannot be the name of a file");
    refuse(helper_path(state, "x/"), TFOS_INVALID, "cannot be the name of a file");
    refuse(*state, TFOS_INVALID, "expected a file or a free name, found a folder");
    refuse(helper_path(state, "missing/x"), TFOS_NOT_FOUND, "missing/x: cannot be created");
    refuse("/dev/null", TFOS_INVALID, "found a special file");
    refuse("hdfs://host/x", TFOS_UNSUPPORTED, "'hdfs'");
    helper_to_file(helper_path(state, "file"), helper_from_text("x"));
    refuse(helper_path(state, "file/x"), TFOS_NOT_FOUND, "file/x");
    refuse((const char *)helper_repeat('p', 5000).data, TFOS_INVALID, "may have 4032 bytes, found 5000");
    assert_int_equal(helper_count_files(*state), 1);
}

static void test_no_permission(void **state)
{
    enum { NOBODY = 65534 };
    bool root = geteuid() == 0;
    assert_int_equal(chmod(*state, 0555), 0);
    if (root) {
        assert_int_equal(seteuid(NOBODY), 0);
    }
    bool reachable = eaccess(*state, X_OK) == 0;
    if (reachable) {
        refuse(helper_path(state, "x"), TFOS_PERMISSION, "x: cannot be created: Permission denied");
    }
    if (root) {
        assert_int_equal(seteuid(0), 0);
    }
    assert_int_equal(chmod(*state, 0755), 0);
    if (!reachable) {
        skip();
    }
}

/* Writes until it fails; the failure is NO_SPACE, and an abort leaves nothing. */
static void write_until_full(const char *path)
{
    tfos__output *output = open_output(path, false);
    helper_bytes block = helper_repeat('x', 64 * 1024);
    tfos_error error = {0};
    tfos_status status = TFOS_OK;
    for (int i = 0; i < 1024 && status == TFOS_OK; i++) {
        status = tfos__output_write(output, block.data, block.count, &error);
    }
    assert_int_equal(status, TFOS_NO_SPACE);
    helper_expect_in(error.message, "writing failed");
    helper_expect_in(error.message, path);
    tfos__output_abort(output);
}

static void test_a_limit_on_the_size_of_files(void **state)
{
    struct rlimit before;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    write_until_full(helper_path(state, "out"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(helper_count_files(*state), 0);
}

static void test_a_full_disk(void **state)
{
    const char *disk = helper_path(state, "disk");
    assert_int_equal(mkdir(disk, 0777), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=512k") != 0) {
        skip(); /* only root may mount, and not everywhere */
    }
    write_until_full(helper_path(state, "disk/out"));
    size_t left = helper_count_files(disk);
    assert_int_equal(umount(disk), 0);
    assert_int_equal(left, 0);
}

static void test_interruption_removes_hidden_files(void **state)
{
    tfos__output *outputs[10];
    char name[16];
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "out%d", i);
        outputs[i] = open_output(helper_path(state, name), false);
    }
    assert_int_equal(tfos__output_commit(outputs[3], NULL), TFOS_OK);
    tfos__output_abort(outputs[5]);
    assert_int_equal(helper_count_files(*state), 9);
    tfos__outputs_unlink_all();
    assert_int_equal(helper_count_files(*state), 1); /* what was committed stays */
    assert_true(helper_exists(helper_path(state, "out3")));
    for (int i = 0; i < 10; i++) {
        if (i != 3 && i != 5) {
            tfos__output_abort(outputs[i]);
        }
    }
}

static void test_a_name_in_the_working_folder(void **state)
{
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    tfos__output *output = open_output("out", false);
    write_text(output, "x");
    tfos_status status = tfos__output_commit(output, NULL);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, TFOS_OK);
    expect_content(helper_path(state, "out"), "x");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_a_file_appears_on_commit),
        IN_FOLDER(test_an_abort_leaves_nothing),
        IN_FOLDER(test_a_file_that_exists),
        IN_FOLDER(test_a_name_that_is_taken_meanwhile),
        IN_FOLDER(test_two_writers_of_one_name),
        IN_FOLDER(test_left_over_hidden_files),
        IN_FOLDER(test_the_longest_name),
        IN_FOLDER(test_what_cannot_be_written),
        IN_FOLDER(test_no_permission),
        IN_FOLDER(test_a_limit_on_the_size_of_files),
        IN_FOLDER(test_a_full_disk),
        IN_FOLDER(test_interruption_removes_hidden_files),
        IN_FOLDER(test_a_name_in_the_working_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files that workers see: what is the same list on all hosts, and what is said of two that differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "helper_records.h"
#include "tensorflow/trainer_files.h"

enum { WORKERS = 3 };

/* One host has its files in a folder of its own: DIR/HOST/data/…. */
static void write_file(void *const *state, const char *host, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/data/%s", host, name);
    helper_to_file(helper_path(state, path), helper_from_text(text));
}

static void make_host(void *const *state, const char *host)
{
    static const char *const folders[] = {"", "/data", "/data/a", "/data/b"};
    char path[128];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s%s", host, folders[i]);
        assert_int_equal(mkdir(helper_path(state, path), 0777), 0);
    }
    write_file(state, host, "a/part-0", "12345");
    write_file(state, host, "b/part-0", "123");
    write_file(state, host, "b/part-1", "1");
}

/* What a worker sees of DIR/HOST/NAME. */
static tfos__file_list see(void *const *state, const char *host, const char *name)
{
    char path[128];
    tfos_paths *paths;
    tfos__file_list list;
    snprintf(path, sizeof path, "%s/%s", host, name);
    const char *inputs[] = {helper_path(state, path)};
    assert_int_equal(tfos_paths_expand(inputs, 1, &paths, NULL), TFOS_OK);
    tfos__file_list_take(paths, &list);
    tfos_paths_free(paths);
    return list;
}

/* Two workers see what `one` has, and the last what `other` has. */
static void expect(void *const *state, const char *name, const char *one, const char *other, const char *said)
{
    const tfos__file_list lists[WORKERS] = {see(state, one, name), see(state, one, name), see(state, other, name)};
    tfos_error error = {0};
    tfos_status status = tfos__file_lists_compare(lists, WORKERS, 1, "data", &error);
    assert_int_equal(status, said == NULL ? TFOS_OK : TFOS_MISMATCH);
    if (said != NULL) {
        helper_expect_in(error.message, "data: workers see different files");
        helper_expect_in(error.message, said);
    }
}

static int make_hosts(void **state)
{
    int code = helper_setup(state);
    make_host(state, "one");
    make_host(state, "other");
    return code;
}

/* The same files, wherever they are on each host. */
static void test_hosts_with_the_same_files(void **state)
{
    expect(state, "data", "one", "other", NULL);
    expect(state, "data/*/part-*", "one", "other", NULL);
    expect(state, "data/b/part-1", "one", "other", NULL);
    helper_to_file(helper_path(state, "other/data/_SUCCESS"), helper_from_text("")); /* no file of data */
    expect(state, "data", "one", "other", NULL);
}

static void test_a_file_more(void **state)
{
    write_file(state, "other", "b/part-2", "12");
    expect(state, "data", "one", "other", "3 files of 9 bytes in all, worker 2 sees 4 of 11 bytes in all.");
}

/* One that somebody writes to. */
static void test_a_file_that_grows(void **state)
{
    write_file(state, "other", "a/part-0", "1234567");
    expect(state, "data", "one", "other", "3 files of 9 bytes in all, worker 2 sees 3 of 11 bytes in all.");
}

static void test_as_many_and_as_large(void **state)
{
    static const char said[] = "worker 2 sees as many and as large ones, with other names or sizes among them.";
    write_file(state, "other", "a/part-0", "123");
    write_file(state, "other", "b/part-0", "12345");
    expect(state, "data", "one", "other", said);
    write_file(state, "other", "a/part-0", "12345");
    write_file(state, "other", "b/part-0", "123");
    expect(state, "data", "one", "other", NULL);
    remove(helper_path(state, "other/data/a/part-0"));
    write_file(state, "other", "a/part-1", "12345");
    expect(state, "data", "one", "other", said);
}

#define ON_HOSTS(test) cmocka_unit_test_setup_teardown(test, make_hosts, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_HOSTS(test_hosts_with_the_same_files),
        ON_HOSTS(test_a_file_more),
        ON_HOSTS(test_a_file_that_grows),
        ON_HOSTS(test_as_many_and_as_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

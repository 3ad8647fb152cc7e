/* Where TensorFlow is looked for, in which order, and what is said about it. Environments are made of empty files: only
 * their places matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/fs.h"
#include "helper_records.h"
#include "tensorflow/find.h"

#define PACKAGES "lib/python3.11/site-packages"
#define WHEEL "tensorflow/libtensorflow_cc.so.2"

/* ---- environments ---- */

static int setup(void **state)
{
    static const char *const names[] = {"TFOS_TENSORFLOW_LIB", "PYSPARK_PYTHON", "VIRTUAL_ENV",
                                        "PYTHONPATH",          "PYTHONUSERBASE", "PYTHONNOUSERSITE"};
    helper_setup(state);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    setenv("HOME", helper_path(state, "home"), 1);
    setenv("PATH", helper_path(state, "nowhere"), 1);
    return 0;
}

static const char *make_file(void *const *state, const char *name, const char *text)
{
    const char *path = helper_path(state, name);
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(tfos__folder_make(folder, NULL), TFOS_OK);
    helper_to_file(path, helper_from_text(text));
    return path;
}

/* An interpreter that runs a shell script. */
static const char *make_python(void *const *state, const char *name, const char *script)
{
    char text[4 * PATH_MAX];
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    const char *path = make_file(state, name, text);
    assert_int_equal(chmod(path, 0755), 0);
    return path;
}

/* NAME/bin/python3.11 that knows nothing when it is asked, and bin/python that links to it. */
static const char *make_base(void *const *state, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/bin/python3.11", name);
    make_python(state, path, "exit 1");
    snprintf(path, sizeof path, "%s/bin/python", name);
    assert_int_equal(symlink("python3.11", helper_path(state, path)), 0);
    return helper_path(state, path);
}

/* NAME as a virtual environment of the Python BASE. */
static const char *make_virtual(void *const *state, const char *name, const char *base, bool with_base)
{
    char path[PATH_MAX];
    char text[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/bin/python3.11", base);
    const char *target = helper_path(state, path);
    snprintf(path, sizeof path, "%s/bin", base);
    snprintf(text, sizeof text, "home = %s\ninclude-system-site-packages = %s\nversion = 3.11.7\n",
             helper_path(state, path), with_base ? "true" : "false");
    snprintf(path, sizeof path, "%s/pyvenv.cfg", name);
    make_file(state, path, text);
    snprintf(path, sizeof path, "%s/bin", name);
    assert_int_equal(tfos__folder_make(helper_path(state, path), NULL), TFOS_OK);
    snprintf(path, sizeof path, "%s/bin/python", name);
    assert_int_equal(symlink(target, helper_path(state, path)), 0);
    return helper_path(state, path);
}

static const char *make_tensorflow(void *const *state, const char *packages)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", packages, WHEEL);
    return make_file(state, path, "");
}

static void expect_found(const char *python, const char *expected)
{
    tfos__tensorflow_search search;
    tfos_error error = {0};
    assert_int_equal(tfos__tensorflow_find(python, &search, &error), TFOS_OK);
    assert_string_equal(search.path, expected);
}

/* Nothing in the environments that were made; the machine itself may have one. */
static tfos__tensorflow_search expect_nothing(const char *python)
{
    tfos__tensorflow_search search;
    assert_int_equal(tfos__tensorflow_find(python, &search, NULL), TFOS_OK);
    assert_true(search.path[0] == '\0' || strncmp(search.path, "/usr/", 5) == 0);
    return search;
}

/* ---- tests ---- */

static void test_variable(void **state)
{
    const char *file = make_tensorflow(state, "a");
    tfos__tensorflow_search search;
    tfos_error error = {0};
    setenv("TFOS_TENSORFLOW_LIB", file, 1);
    expect_found(NULL, file);
    setenv("TFOS_TENSORFLOW_LIB", helper_path(state, "a/tensorflow"), 1);
    expect_found(NULL, file);
    setenv("TFOS_TENSORFLOW_LIB", helper_path(state, "a"), 1); /* a folder of packages */
    expect_found(NULL, file);
    const char *plain = make_file(state, "c/libtensorflow.so.2", "");
    setenv("TFOS_TENSORFLOW_LIB", helper_path(state, "c"), 1);
    expect_found(NULL, plain);
    assert_int_equal(tfos__folder_make(helper_path(state, "empty"), NULL), TFOS_OK);
    setenv("TFOS_TENSORFLOW_LIB", helper_path(state, "empty"), 1);
    assert_int_equal(tfos__tensorflow_find(NULL, &search, &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "found neither in the folder");
    setenv("TFOS_TENSORFLOW_LIB", helper_path(state, "gone"), 1);
    assert_int_equal(tfos__tensorflow_find(NULL, &search, &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "TFOS_TENSORFLOW_LIB (or --tensorflow): expected libtensorflow_cc.so.2");
    helper_expect_in(error.message, "found no such file");
}

static void test_order(void **state)
{
    const char *argument = make_base(state, "argument");
    const char *of_argument = make_tensorflow(state, "argument/" PACKAGES);
    const char *of_spark = make_tensorflow(state, "spark/" PACKAGES);
    const char *of_virtual = make_tensorflow(state, "virtual/" PACKAGES);
    const char *of_path = make_tensorflow(state, "path/" PACKAGES);
    const char *of_variable = make_tensorflow(state, "variable");
    make_base(state, "virtual");
    make_base(state, "path");
    assert_int_equal(symlink("python3.11", helper_path(state, "path/bin/python3")), 0);
    setenv("PATH", helper_path(state, "path/bin"), 1);
    expect_found(NULL, of_path);
    setenv("VIRTUAL_ENV", helper_path(state, "virtual"), 1);
    expect_found(NULL, of_virtual);
    setenv("PYSPARK_PYTHON", make_base(state, "spark"), 1);
    expect_found(NULL, of_spark);
    expect_found(argument, of_argument);
    setenv("TFOS_TENSORFLOW_LIB", of_variable, 1);
    expect_found(argument, of_variable);
}

static void test_what_is_not_there(void **state)
{
    tfos__tensorflow_search search;
    tfos_error error = {0};
    assert_int_equal(tfos__tensorflow_find("/no/such/python", &search, &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "found no program '/no/such/python'");
    setenv("PYSPARK_PYTHON", "/elsewhere/python", 1);
    setenv("VIRTUAL_ENV", "/elsewhere", 1);
    search = expect_nothing(NULL);
    helper_expect_in(search.looked,
                     "TFOS_TENSORFLOW_LIB (not set); PYSPARK_PYTHON=/elsewhere/python (no such program); "
                     "VIRTUAL_ENV=/elsewhere (no bin/python); python3 on the PATH (none)");
    const char *python = make_base(state, "base");
    search = expect_nothing(python);
    helper_expect_in(search.looked, "(no tensorflow)");
    /* A path of any length does no harm. */
    char *lengthy = calloc(1, 3 * PATH_MAX);
    assert_non_null(lengthy);
    memset(lengthy, 'x', 3 * PATH_MAX - 1);
    lengthy[0] = '/';
    setenv("PYSPARK_PYTHON", lengthy, 1);
    setenv("VIRTUAL_ENV", lengthy, 1);
    setenv("PYTHONPATH", lengthy, 1);
    expect_nothing(NULL);
    assert_int_equal(tfos__tensorflow_find(lengthy, &search, NULL), TFOS_NOT_FOUND);
    free(lengthy);
}

static void test_virtual_environments(void **state)
{
    make_base(state, "base");
    const char *of_base = make_tensorflow(state, "base/" PACKAGES);
    const char *closed = make_virtual(state, "closed", "base", false);
    const char *open = make_virtual(state, "open", "base", true);
    expect_nothing(closed); /* what its Python cannot import is not taken */
    expect_found(open, of_base);
    const char *own = make_tensorflow(state, "open/lib64/python3.11/site-packages");
    expect_found(open, own);
    /* A copied interpreter has no version in its name: pyvenv.cfg tells. */
    const char *copy = make_python(state, "closed/bin/python3", "exit 1");
    own = make_tensorflow(state, "closed/" PACKAGES);
    expect_found(copy, own);
}

static void test_other_folders(void **state)
{
    const char *python = make_base(state, "base");
    assert_int_equal(symlink(python, helper_path(state, "link")), 0);
    make_tensorflow(state, "base/lib/python3.9/site-packages"); /* of another version */
    expect_nothing(python);
    const char *of_debian = make_tensorflow(state, "base/local/lib/python3.11/dist-packages");
    expect_found(python, of_debian);
    expect_found(helper_path(state, "link"), of_debian);
    const char *of_user = make_tensorflow(state, "home/.local/" PACKAGES);
    expect_found(python, of_user);
    setenv("PYTHONNOUSERSITE", "1", 1);
    expect_found(python, of_debian);
    const char *of_path = make_tensorflow(state, "extra");
    char both[2 * PATH_MAX];
    snprintf(both, sizeof both, "/nowhere::%s", helper_path(state, "extra"));
    setenv("PYTHONPATH", both, 1);
    expect_found(python, of_path);
}

static void test_asking(void **state)
{
    const char *file = make_tensorflow(state, "odd");
    char script[PATH_MAX + 128];
    snprintf(script, sizeof script, "echo hello; echo tfos:/nowhere; printf '\\ntfos:%s\\n'",
             helper_path(state, "odd/tensorflow"));
    expect_found(make_python(state, "bin/chatty", script), file);
    tfos__tensorflow_search search = expect_nothing(make_python(state, "bin/endless", "exec /usr/bin/yes tfos:"));
    helper_expect_in(search.looked, "endless can import (no tensorflow)");
    make_file(state, "bin/broken", "no program at all");
    assert_int_equal(chmod(helper_path(state, "bin/broken"), 0755), 0);
    search = expect_nothing(helper_path(state, "bin/broken"));
    helper_expect_in(search.looked, "broken can import (");
}

/* A wrapper that hangs, with a child of its own that holds the pipe. */
static void test_asking_in_vain(void **state)
{
    const char *mark = helper_path(state, "child");
    char script[2 * PATH_MAX];
    snprintf(script, sizeof script, "/bin/sleep 1000 & echo $! >%s; wait", mark);
    const char *python = make_python(state, "bin/hanging", script);
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    tfos__tensorflow_search search = expect_nothing(python);
    clock_gettime(CLOCK_MONOTONIC, &after);
    helper_expect_in(search.looked, "hanging can import (it gave no answer in 10 s)");
    assert_in_range(after.tv_sec - before.tv_sec, 9, 30);
    char text[32];
    snprintf(text, sizeof text, "/proc/%d", atoi((const char *)helper_of_file(mark).data));
    for (int i = 0; i < 500 && helper_exists(text); i++) {
        usleep(10000); /* it has its signal; init reaps it */
    }
    if (helper_exists(text)) {
        /* Where nobody reaps orphans, it must at least be dead. */
        char path[64];
        snprintf(path, sizeof path, "%s/stat", text);
        helper_expect_in((const char *)helper_of_file(path).data, ") Z ");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_variable, setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_there, setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_virtual_environments, setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_other_folders, setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_asking, setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_asking_in_vain, setup, helper_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

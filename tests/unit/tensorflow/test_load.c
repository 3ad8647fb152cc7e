/* Loading TensorFlow: what cannot be used is refused with a reason; what can is loaded once, and shared with whoever
 * has loaded it before. The last tests need the real TensorFlow of the Python environment of the tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>

#include "helper_records.h"
#include "tensorflow/api.h"
#include "tensorflow/find.h"

static tfos_status load_from(const char *path, tfos_error *error)
{
    const tfos__tensorflow *tf = NULL;
    setenv("TFOS_TENSORFLOW_LIB", path, 1);
    tfos_status status = tfos__tensorflow_load(NULL, &tf, error);
    unsetenv("TFOS_TENSORFLOW_LIB");
    assert_null(tf);
    return status;
}

static const char *stand_in(void *const *state, const char *name)
{
    static char path[PATH_MAX];
    (void)state;
    assert_non_null(getenv("TFOS_TEST_STAND_INS"));
    snprintf(path, sizeof path, "%s/%s", getenv("TFOS_TEST_STAND_INS"), name);
    return path;
}

static void test_no_library(void **state)
{
    tfos_error error = {0};
    const char *path = helper_path(state, "libtensorflow_cc.so.2");
    helper_to_file(path, helper_from_text("this is no library"));
    assert_int_equal(load_from(path, &error), TFOS_MISSING_LIBRARY);
    helper_expect_in(error.message, "TensorFlow cannot be loaded from ");
    helper_expect_in(error.message, path);
    assert_int_equal(load_from("/no/such/library", &error), TFOS_NOT_FOUND);
    /* A library, but of something else. */
    Dl_info info;
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "printf"), &info), 0);
    assert_int_equal(load_from(info.dli_fname, &error), TFOS_MISSING_LIBRARY);
    helper_expect_in(error.message, "is no TensorFlow library: it lacks TF_Version");
}

/* One that was built on a newer system than this. */
static void test_too_new_for_this_system(void **state)
{
    tfos_error error = {0};
    Dl_info info; /* of any library that needs the C library */
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"), &info), 0);
    helper_bytes bytes = helper_of_file(info.dli_fname);
    uint8_t *copy = malloc(bytes.count);
    size_t found = 0;
    assert_non_null(copy);
    memcpy(copy, bytes.data, bytes.count);
    for (size_t i = 0; i + 8 < bytes.count; i++) {
        if (memcmp(copy + i, "GLIBC_2.", 8) == 0) {
            copy[i + 6] = '9';
            found++;
        }
    }
    assert_int_not_equal(found, 0);
    const char *path = helper_path(state, "libtensorflow_cc.so.2");
    helper_to_file(path, (helper_bytes){copy, bytes.count});
    free(copy);
    assert_int_equal(load_from(path, &error), TFOS_MISSING_LIBRARY);
    helper_expect_in(error.message, "version `GLIBC_9.");
    helper_expect_in(error.message, "this machine's C library is older than the one that it was built for");
}

static void test_too_old(void **state)
{
    tfos_error error = {0};
    const char *path = stand_in(state, "stand_in_tensorflow_old.so");
    assert_int_equal(load_from(path, &error), TFOS_UNSUPPORTED);
    helper_expect_in(error.message, "expected TensorFlow 2.16 or newer, found 2.15.1 in ");
    helper_expect_in(error.message, path);
}

static void test_not_complete(void **state)
{
    tfos_error error = {0};
    const char *path = stand_in(state, "stand_in_tensorflow_partial.so");
    assert_int_equal(load_from(path, &error), TFOS_MISSING_LIBRARY);
    helper_expect_in(error.message, path);
    helper_expect_in(error.message, "(TensorFlow 2.99.0-rc1) lacks the function TF_NewServer");
}

static void test_nowhere(void **state)
{
    tfos_error error = {0};
    const tfos__tensorflow *tf = NULL;
    setenv("PATH", helper_path(state, "nowhere"), 1);
    setenv("PYSPARK_PYTHON", "/elsewhere/python", 1);
    unsetenv("VIRTUAL_ENV");
    tfos__tensorflow_search search;
    assert_int_equal(tfos__tensorflow_find(NULL, &search, NULL), TFOS_OK);
    if (search.path[0] != '\0' || dlopen(TFOS__TENSORFLOW_C_LIBRARY, RTLD_LAZY) != NULL) {
        skip(); /* the system has one */
    }
    assert_int_equal(tfos__tensorflow_load(NULL, &tf, &error), TFOS_MISSING_LIBRARY);
    helper_expect_in(error.message, "pip install tensorflow");
    helper_expect_in(error.message, "set TFOS_TENSORFLOW_LIB to libtensorflow_cc.so.2");
    helper_expect_in(error.message, "PYSPARK_PYTHON=/elsewhere/python");
    helper_expect_in(error.message, "ldconfig");
    assert_null(strstr(error.message, "spark.tfos"));
    char path[PATH_MAX];
    setenv("TFOS_TENSORFLOW_SHIP", "never", 1);
    assert_int_equal(tfos__tensorflow_locate(NULL, path, &error), TFOS_MISSING_LIBRARY);
    helper_expect_in(error.message, "or let the driver bring its own (spark.tfos.tensorflow.ship=auto; it is 'never')");
    unsetenv("TFOS_TENSORFLOW_SHIP");
}

/* ---- the real one ---- */

static void need_tensorflow(void)
{
    const char *python = getenv("TFOS_TEST_PYTHON");
    if (python == NULL || access(python, X_OK) != 0) {
        skip();
    }
}

static void *load_in_thread(void *context)
{
    const tfos__tensorflow *tf = NULL;
    (void)context;
    assert_int_equal(tfos__tensorflow_load(getenv("TFOS_TEST_PYTHON"), &tf, NULL), TFOS_OK);
    return (void *)(uintptr_t)tf;
}

/* The program has loaded TensorFlow as Python does it, from a place that nobody would find. All threads get that one.
 */
static void test_one_in_the_process(void **state)
{
    enum { THREADS = 4 };
    need_tensorflow();
    tfos__tensorflow_search search;
    pthread_t threads[THREADS];
    void *results[THREADS];
    (void)state;
    assert_int_equal(tfos__tensorflow_find(getenv("TFOS_TEST_PYTHON"), &search, NULL), TFOS_OK);
    void *handle = dlopen(search.path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    setenv("TFOS_TENSORFLOW_LIB", "/no/such/library", 1);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, load_in_thread, NULL), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &results[i]), 0);
        assert_ptr_equal(results[i], results[0]);
    }
    const tfos__tensorflow *tf = results[0];
    assert_string_equal(tf->path, search.path);
    assert_string_equal(tf->version, tf->TF_Version());
    void *same;
    memcpy(&same, &tf->TF_NewServer, sizeof same);
    assert_ptr_equal(same, dlsym(handle, "TF_NewServer"));
    unsetenv("TFOS_TENSORFLOW_LIB");
}

static void test_what_tensorflow_says(void **state)
{
    need_tensorflow();
    (void)state;
    const tfos__tensorflow *tf;
    tfos_error error = {0};
    assert_int_equal(tfos__tensorflow_load(NULL, &tf, NULL), TFOS_OK);
    assert_int_equal(tfos__tensorflow_load_ops(tf, "/no/such/ops.so", &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "/no/such/ops.so: TensorFlow ");
    helper_expect_in(error.message, " says: ");
    TF_Status *status = tf->TF_NewStatus();
    assert_int_equal(tfos__tensorflow_check(tf, status, "nothing", &error), TFOS_OK);
    assert_null(tf->TF_NewServer("nonsense", 8, status));
    assert_int_equal(tfos__tensorflow_check(tf, status, "a test", &error), TFOS_INVALID);
    helper_expect_in(error.message, "a test: TensorFlow ");
    tf->TF_DeleteStatus(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_library, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_too_new_for_this_system, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_too_old, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_not_complete, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_nowhere, helper_setup, helper_teardown),
        cmocka_unit_test(test_one_in_the_process),
        cmocka_unit_test(test_what_tensorflow_says),
    };
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    fflush(NULL);
    _exit(result); /* TensorFlow's destructors meet its threads */
}

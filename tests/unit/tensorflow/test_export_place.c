/* The place of an exported model: what stands in its way, what would be lost with the one that is there, and how it
 * takes its name. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_records.h"
#include "tensorflow/export_place.h"

/* ---- a file system that cannot exchange two folders ---- */

static bool cannot_exchange;

int __real_renameat2(int old_folder, const char *old_path, int new_folder, const char *new_path, unsigned flags);
int __wrap_renameat2(int old_folder, const char *old_path, int new_folder, const char *new_path, unsigned flags);

int __wrap_renameat2(int old_folder, const char *old_path, int new_folder, const char *new_path, unsigned flags)
{
    if (cannot_exchange && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return __real_renameat2(old_folder, old_path, new_folder, new_path, flags);
}

static int renames;

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

int __wrap_rename(const char *from, const char *to)
{
    renames++;
    return __real_rename(from, to);
}

/* ---- taking its name ---- */

static void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0777), 0);
}

/* A folder with a file in it, as a process of the same number has left it that was killed. */
static void leave(void *const *state, const char *end)
{
    char name[64];
    snprintf(name, sizeof name, ".model.tfos-%ld%s", (long)getpid(), end);
    make_folder(helper_path(state, name));
    strcat(name, "/saved_model.pb");
    helper_to_file(helper_path(state, name), helper_from_text("left"));
}

static void export_to(void *const *state, const char *text)
{
    tfos_error error = {0};
    char path[4096];
    char *made = NULL;
    if (tfos__export_place_make(helper_path(state, "model"), &made, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    snprintf(path, sizeof path, "%s/saved_model.pb", made);
    helper_to_file(path, helper_from_text(text));
    if (tfos__export_place_take(made, helper_path(state, "model"), &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_false(helper_exists(made));
    assert_true(helper_equal(helper_of_file(helper_path(state, "model/saved_model.pb")), helper_from_text(text)));
    free(made);
}

static void test_leftovers_are_in_nobodys_way(void **state)
{
    static const char *const ends[] = {"", "-old", "-0", "-1", "-2"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        leave(state, ends[i]);
    }
    export_to(state, "first");
    renames = 0;
    export_to(state, "second"); /* in the place of a model, of which there is one at every moment */
    assert_int_equal(renames, 0);
    cannot_exchange = true;
    export_to(state, "third");
    cannot_exchange = false;
    assert_int_equal(helper_count_files(*state), sizeof ends / sizeof ends[0] + 1);
}

/* Behind hours of training it would be too late. */
static void test_names_that_nothing_can_be_moved_to(void **state)
{
    char path[4096];
    assert_int_equal(mkdir(helper_path(state, "folder"), 0777), 0);
    assert_int_equal(symlink("folder", helper_path(state, "link")), 0);
    assert_int_equal(symlink("nowhere", helper_path(state, "dangling")), 0);
    static const char *const names[] = {"link", "link/", "dangling", "folder/.", "folder/..", "folder/x/../"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tfos_error error = {0};
        assert_int_equal(tfos__export_check(helper_path(state, names[i]), &error), TFOS_INVALID);
        helper_expect_in(error.message, "a model appears by being moved to its name");
    }
    assert_int_equal(tfos__export_check(".", NULL), TFOS_INVALID);
    assert_int_equal(tfos__export_check("/", NULL), TFOS_INVALID);
    snprintf(path, sizeof path, "%s/", helper_path(state, "folder"));
    assert_int_equal(tfos__export_check(path, NULL), TFOS_OK);
    assert_int_equal(tfos__export_check(helper_path(state, "folder/.x"), NULL), TFOS_OK);
    assert_int_equal(tfos__export_check(helper_path(state, "folder/link"), NULL), TFOS_OK);
}

/* ---- other places ---- */

static tfos_status check_apart(void *const *state, const char *folder, const char *other)
{
    const char *const others[] = {NULL, helper_path(state, other)};
    tfos_error error = {0};
    tfos_status status = tfos__export_check_apart(helper_path(state, folder), "this", others, 2, &error);
    if (status != TFOS_OK) {
        helper_expect_in(error.message, "this, ");
        helper_expect_in(error.message, other);
    }
    return status;
}

/* Whether or not anything of it is there, and by whichever way. */
static void test_what_would_be_lost_with_the_model_that_is_replaced(void **state)
{
    static const struct {
        const char *folder;
        const char *other;
        bool inside;
    } pairs[] = {
        {"model", "model", true},
        {"model", "model/run", true},
        {"model", "link/run/2", true},
        {"link", "model/run/2", true},
        {"model", "nowhere/../model/run", true},
        {"model", "run", false},
        {"model", "models", false},
        {"model/2", "model", false},
        {"model", "model/../run", false},
        {"new", "new", true},
        {"new/", "new//run", true},
        {"new", "new/./run/", true},
        {"new", "new/../run", false},
        {"new", "news", false},
    };
    make_folder(helper_path(state, "model"));
    assert_int_equal(symlink("model", helper_path(state, "link")), 0);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        tfos_status expected = pairs[i].inside ? TFOS_INVALID : TFOS_OK;
        if (check_apart(state, pairs[i].folder, pairs[i].other) != expected) {
            fail_msg("%s, %s", pairs[i].folder, pairs[i].other);
        }
    }
    assert_int_equal(helper_count_files(*state), 2);
}

static void test_a_copy_is_not_made_in_what_is_copied(void **state)
{
    static const char *const inside[] = {"serving", "serving/x/y", "link/x"};
    static const char *const outside[] = {"x", "servings", "serving/../x"};
    tfos_error error = {0};
    const char *source = helper_path(state, "serving");
    make_folder(source);
    assert_int_equal(symlink("serving", helper_path(state, "link")), 0);
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        assert_int_equal(tfos__export_check_outside(helper_path(state, inside[i]), source, &error), TFOS_INVALID);
        assert_int_equal(tfos__export_check_outside(helper_path(state, outside[i]), source, &error), TFOS_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_would_be_lost_with_the_model_that_is_replaced, helper_setup,
                                        helper_teardown),
        cmocka_unit_test_setup_teardown(test_a_copy_is_not_made_in_what_is_copied, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_leftovers_are_in_nobodys_way, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_names_that_nothing_can_be_moved_to, helper_setup, helper_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Folders of checkpoints: what the file of their names says, which are removed, and what is on disk. The files are made
 * here; what TensorFlow makes of real ones is seen in the tests of `tfos train`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "helper_records.h"
#include "tensorflow/checkpoints.h"

static void expect_names(const tfos__checkpoints *found, const char *const *names, size_t count)
{
    assert_int_equal(found->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(found->at[i].name, names[i]);
    }
}

#define EXPECT_NAMES(found, ...)                                                                                       \
    expect_names(found, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void parse(tfos__checkpoints *out, const char *text)
{
    tfos_error error = {0};
    *out = (tfos__checkpoints){.most = 9};
    if (tfos__checkpoints_parse(out, text, strlen(text), &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
}

static void test_the_newest_is_the_one_that_the_file_calls_so(void **state)
{
    tfos__checkpoints found;
    (void)state;
    parse(&found, "model_checkpoint_path: \"b\"\nall_model_checkpoint_paths: \"a\"\nall_model_checkpoint_paths: \"b\"\n"
                  "all_model_checkpoint_paths: \"c\"\nall_model_checkpoint_timestamps: 1.5\n"
                  "all_model_checkpoint_timestamps: 2.5\nlast_preserved_timestamp: 1\n");
    EXPECT_NAMES(&found, "a", "c", "b");
    assert_true(found.at[2].time_s == 2.5);
    tfos__checkpoints_close(&found);
    parse(&found, "model_checkpoint_path: \"by \\\"hand\\\"\\303\\244\"");
    EXPECT_NAMES(&found, "by \"hand\"ä");
    tfos__checkpoints_close(&found);
    parse(&found, "\n");
    assert_int_equal(found.count, 0);
    tfos__checkpoints_close(&found);
}

static void test_lines_that_make_no_sense_are_shown(void **state)
{
    static const char *const texts[] = {"nonsense", "model_checkpoint_path: a", "all_model_checkpoint_paths: \"",
                                        "all_model_checkpoint_paths: \"a\"\nmodel_checkpoint_path: \"b\"\nmodel_"
                                        "checkpoint_path: x"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tfos__checkpoints found = {.most = 9};
        tfos_error error = {0};
        assert_int_equal(tfos__checkpoints_parse(&found, texts[i], strlen(texts[i]), &error), TFOS_CORRUPT);
        helper_expect_in(error.message, "expected");
        tfos__checkpoints_close(&found);
    }
}

/* ---- files ---- */

static const char *path_of(void *const *state, const char *name, const char *end)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s", name, end);
    return helper_path(state, text);
}

static void make_files(void *const *state, const char *name)
{
    static const char *const ends[] = {".index", ".data-00000-of-00001"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        helper_to_file(path_of(state, name, ends[i]), helper_from_text(name));
    }
}

static void open_folder(void *const *state, size_t most, tfos__checkpoints *out)
{
    tfos_error error = {0};
    if (tfos__checkpoints_open(*state, most, out, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
}

static void add(void *const *state, tfos__checkpoints *to, const char *name, const char *spared)
{
    tfos_error error = {0};
    make_files(state, name);
    if (tfos__checkpoints_add(to, name, "{}", spared, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
}

static void test_the_oldest_are_removed_but_for_one_that_is_spared(void **state)
{
    tfos__checkpoints found;
    open_folder(state, 2, &found);
    add(state, &found, "ckpt-1", NULL);
    add(state, &found, "ckpt-2", "ckpt-1");
    add(state, &found, "ckpt-3", "ckpt-1");
    add(state, &found, "ckpt-4", "ckpt-1");
    EXPECT_NAMES(&found, "ckpt-1", "ckpt-3", "ckpt-4");
    assert_false(helper_exists(path_of(state, "ckpt-2", ".index")));
    assert_false(helper_exists(path_of(state, "ckpt-2", ".json")));
    assert_true(helper_exists(path_of(state, "ckpt-1", ".data-00000-of-00001")));
    add(state, &found, "ckpt-5", "ckpt-4");
    EXPECT_NAMES(&found, "ckpt-4", "ckpt-5");
    add(state, &found, "ckpt-4", NULL); /* it is the newest again */
    EXPECT_NAMES(&found, "ckpt-5", "ckpt-4");
    tfos__checkpoints_close(&found);
    open_folder(state, 2, &found); /* what is said is on disk */
    EXPECT_NAMES(&found, "ckpt-5", "ckpt-4");
    tfos__checkpoints_close(&found);
}

static void test_names_with_the_same_beginning_are_of_different_checkpoints(void **state)
{
    tfos__checkpoints found;
    open_folder(state, 1, &found);
    add(state, &found, "ckpt-1", NULL);
    assert_true(tfos__checkpoints_has(&found, "ckpt-1"));
    assert_false(tfos__checkpoints_is_taken(&found, "ckpt-1-2"));
    make_files(state, "ckpt-1-2"); /* it does not count, and is there all the same */
    assert_false(tfos__checkpoints_has(&found, "ckpt-1-2"));
    assert_true(tfos__checkpoints_is_taken(&found, "ckpt-1-2"));
    add(state, &found, "ckpt-9", NULL);
    assert_false(helper_exists(path_of(state, "ckpt-1", ".index")));
    assert_true(helper_exists(path_of(state, "ckpt-1-2", ".index")));
    tfos__checkpoints_close(&found);
}

static void test_what_is_left_of_one_that_could_not_be_written_is_removed(void **state)
{
    tfos_error error = {0};
    make_files(state, "ckpt-1");
    make_files(state, "ckpt-10");
    assert_int_equal(mkdir(helper_path(state, "ckpt-1_temp"), 0777), 0);
    helper_to_file(helper_path(state, "ckpt-1_temp/part"), helper_from_text("half"));
    assert_int_equal(tfos__checkpoint_sync(helper_path(state, "ckpt-1"), &error), TFOS_OK);
    tfos__checkpoint_remove(helper_path(state, "ckpt-1"));
    assert_false(helper_exists(helper_path(state, "ckpt-1_temp")));
    assert_int_equal(helper_count_files(*state), 2);
    assert_int_equal(tfos__checkpoint_sync(helper_path(state, "none/ckpt-1"), &error), TFOS_NOT_FOUND);
}

/* As when the disk is full: what is on disk is what is listed, here and in the file, and nothing else. `obstacle` is a
 * folder where a file is to be. */
static void expect_nothing_left(void **state, const char *obstacle)
{
    tfos__checkpoints found;
    tfos_error error = {0};
    open_folder(state, 2, &found);
    add(state, &found, "ckpt-1", NULL);
    add(state, &found, "ckpt-2", NULL);
    remove(helper_path(state, obstacle));
    assert_int_equal(mkdir(helper_path(state, obstacle), 0777), 0);
    make_files(state, "ckpt-3");
    assert_int_equal(tfos__checkpoints_add(&found, "ckpt-3", "{}", NULL, &error), TFOS_INVALID);
    EXPECT_NAMES(&found, "ckpt-1", "ckpt-2");
    assert_int_equal(remove(helper_path(state, obstacle)), 0);
    assert_false(helper_exists(path_of(state, "ckpt-3", ".index")));
    assert_false(helper_exists(path_of(state, "ckpt-3", ".data-00000-of-00001")));
    add(state, &found, "ckpt-4", NULL);
    EXPECT_NAMES(&found, "ckpt-2", "ckpt-4");
    assert_int_equal(helper_count_files(*state), 2 * 3 + 1);
    tfos__checkpoints_close(&found);
}

static void test_one_that_cannot_be_listed_leaves_nothing(void **state)
{
    expect_nothing_left(state, "checkpoint");
}

static void test_one_without_a_note_leaves_nothing(void **state)
{
    expect_nothing_left(state, "ckpt-3.json");
}

/* One that is listed stays where it was, with its files, if the list cannot be written anew. */
static void test_one_that_cannot_become_the_newest_stays(void **state)
{
    tfos__checkpoints found;
    open_folder(state, 2, &found);
    add(state, &found, "ckpt-1", NULL);
    add(state, &found, "ckpt-2", NULL);
    assert_int_equal(remove(helper_path(state, "checkpoint")), 0);
    assert_int_equal(mkdir(helper_path(state, "checkpoint"), 0777), 0);
    assert_int_equal(tfos__checkpoints_add(&found, "ckpt-1", "{}", NULL, NULL), TFOS_INVALID);
    EXPECT_NAMES(&found, "ckpt-1", "ckpt-2");
    assert_int_equal(tfos__checkpoints_look(&found, 0, NULL), TFOS_OK);
    tfos__checkpoints_close(&found);
}

static void test_files_that_are_missing_are_named(void **state)
{
    tfos__checkpoints found;
    tfos_error error = {0};
    open_folder(state, 9, &found);
    add(state, &found, "ckpt-1", NULL);
    assert_int_equal(tfos__checkpoints_look(&found, 0, &error), TFOS_OK);
    assert_int_equal(remove(path_of(state, "ckpt-1", ".data-00000-of-00001")), 0);
    assert_int_equal(tfos__checkpoints_look(&found, 0, &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "ckpt-1.data-00000-of-00001");
    tfos__checkpoints_close(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_newest_is_the_one_that_the_file_calls_so, helper_setup,
                                        helper_teardown),
        cmocka_unit_test_setup_teardown(test_lines_that_make_no_sense_are_shown, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_the_oldest_are_removed_but_for_one_that_is_spared, helper_setup,
                                        helper_teardown),
        cmocka_unit_test_setup_teardown(test_names_with_the_same_beginning_are_of_different_checkpoints, helper_setup,
                                        helper_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_left_of_one_that_could_not_be_written_is_removed, helper_setup,
                                        helper_teardown),
        cmocka_unit_test_setup_teardown(test_one_that_cannot_be_listed_leaves_nothing, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_one_without_a_note_leaves_nothing, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_one_that_cannot_become_the_newest_stays, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(test_files_that_are_missing_are_named, helper_setup, helper_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Structs of options that grow, and the words of enums: what holds for every one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/choice.h"
#include "base/options.h"

/* A struct as version 1 of a library has it, and as version 2 does. */
typedef struct first {
    size_t size;
    int64_t rows;
} first;

typedef struct second {
    size_t size;
    int64_t rows;
    int64_t patience;
} second;

static const second defaults = {.rows = 10, .patience = 5};

static void test_an_older_caller_gets_the_default_of_what_it_does_not_know(void **state)
{
    (void)state;
    first mine[2];
    second taken;
    memset(mine, 0xAA, sizeof mine);
    tfos__options_init(&mine[0], sizeof mine[0], &defaults, sizeof defaults);
    assert_int_equal(mine[0].size, sizeof mine[0]);
    assert_int_equal(mine[0].rows, 10);
    assert_int_equal(((const uint8_t *)&mine[1])[0], 0xAA); /* nothing is written behind the caller's struct … */
    mine[0].rows = 3;
    assert_int_equal(tfos__options_take("second", &mine[0], &defaults, &taken, sizeof taken, NULL), TFOS_OK);
    assert_int_equal(taken.rows, 3);
    assert_int_equal(taken.patience, 5); /* … nor read */
    assert_int_equal(taken.size, sizeof taken);
}

static void test_no_options_are_the_defaults(void **state)
{
    (void)state;
    second taken;
    assert_int_equal(tfos__options_take("second", NULL, &defaults, &taken, sizeof taken, NULL), TFOS_OK);
    assert_int_equal(taken.rows, 10);
    assert_int_equal(taken.patience, 5);
}

static void test_a_size_that_cannot_be(void **state)
{
    (void)state;
    tfos_error error;
    second mine = {.rows = 3};
    second taken = {.rows = 77};
    assert_int_equal(tfos__options_take("second", &mine, &defaults, &taken, sizeof taken, &error), TFOS_INVALID);
    assert_string_equal(error.message, "second: its size is 0; fill it in with second_init before anything is set");
    mine.size = sizeof mine + 8;
    assert_int_equal(tfos__options_take("second", &mine, &defaults, &taken, sizeof taken, &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "its size is 32, and libtfos " TFOS_VERSION " knows 24 bytes of it"));
    assert_non_null(strstr(error.message, "newer version"));
    assert_int_equal(taken.rows, 77);
}

static void test_a_newer_caller_has_zeros_behind_the_defaults(void **state)
{
    (void)state;
    struct {
        second known;
        int64_t more;
    } newer;
    memset(&newer, 0xAA, sizeof newer);
    tfos__options_init(&newer, sizeof newer, &defaults, sizeof defaults);
    assert_int_equal(newer.known.size, sizeof newer);
    assert_int_equal(newer.known.patience, 5);
    assert_int_equal(newer.more, 0);
}

static void test_words(void **state)
{
    (void)state;
    static const char *const words[] = {"red", "green", "blue", NULL};
    static const char *const one[] = {"red", NULL};
    int number = 77;
    tfos_error error;
    assert_string_equal(tfos__choice_name(words, 2), "blue");
    assert_string_equal(tfos__choice_name(words, 3), "unknown");
    assert_string_equal(tfos__choice_name(words, (unsigned)-1), "unknown");
    assert_int_equal(tfos__choice_parse("color", words, "green", &number, NULL), TFOS_OK);
    assert_int_equal(number, 1);
    assert_int_equal(tfos__choice_parse("color", words, "Green\n", &number, &error), TFOS_INVALID);
    assert_string_equal(error.message, "unknown color 'Green\\x0a': expected red, green or blue");
    assert_int_equal(tfos__choice_parse("color", one, "", &number, &error), TFOS_INVALID);
    assert_string_equal(error.message, "unknown color '': expected red");
    assert_int_equal(number, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_older_caller_gets_the_default_of_what_it_does_not_know),
        cmocka_unit_test(test_no_options_are_the_defaults),
        cmocka_unit_test(test_a_size_that_cannot_be),
        cmocka_unit_test(test_a_newer_caller_has_zeros_behind_the_defaults),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Early stopping: which names are of values that grow, and when enough is enough. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tensorflow/stopping.h"

static void test_names_tell_what_is_better(void **state)
{
    static const char *const larger[] = {"accuracy",
                                         "val_sparse_categorical_accuracy",
                                         "acc",
                                         "val_auc_1",
                                         "precision_at_recall",
                                         "mean_io_u",
                                         "f1_score",
                                         "head_cosine_similarity",
                                         "R2_score",
                                         "val_Recall",
                                         "specificity_at_sensitivity"};
    static const char *const smaller[] = {"loss",
                                          "val_loss",
                                          "mean_squared_error",
                                          "tower2_loss",
                                          "decoder2_loss",
                                          "r2d2",
                                          "accurate_error",
                                          "precision_head_loss",
                                          "val_auc_loss",
                                          "accumulated",
                                          "u2_mae",
                                          "",
                                          "mean_abs_error",
                                          "recalled_bytes",
                                          "_",
                                          "distance"};
    (void)state;
    for (size_t i = 0; i < sizeof larger / sizeof larger[0]; i++) {
        if (!tfos__stopping_is_larger_better(larger[i])) {
            fail_msg("%s is better when it is larger", larger[i]);
        }
    }
    for (size_t i = 0; i < sizeof smaller / sizeof smaller[0]; i++) {
        if (tfos__stopping_is_larger_better(smaller[i])) {
            fail_msg("%s is better when it is smaller", smaller[i]);
        }
    }
}

static void expect_words(tfos__stopping stopping, const double *values, const char *words)
{
    for (int64_t i = 0; words[i] != '\0'; i++) {
        tfos__stopping_word word = tfos__stopping_add(&stopping, i + 1, values[i]);
        char letter = word == TFOS__STOPPING_BETTER ? 'b' : word == TFOS__STOPPING_WAIT ? 'w' : 'e';
        if (letter != words[i]) {
            fail_msg("epoch %lld: expected '%c', found '%c'", (long long)i + 1, words[i], letter);
        }
    }
}

static void test_patience_is_over_after_so_many_epochs(void **state)
{
    (void)state;
    expect_words((tfos__stopping){.patience = 2}, (const double[]){3, 2, 2, 1, 1, 1}, "bbwbwe");
    expect_words((tfos__stopping){.patience = 1, .largest = true}, (const double[]){1, 2, 2}, "bbe");
    expect_words((tfos__stopping){.patience = 0}, (const double[]){1, 2}, "be");
    expect_words((tfos__stopping){.patience = 3, .least = 0.5}, (const double[]){3, 2.6, 2.4, 2.4}, "bwbw");
}

static void test_what_is_no_number_is_never_better(void **state)
{
    (void)state;
    expect_words((tfos__stopping){.patience = 2}, (const double[]){NAN, 5, NAN, NAN}, "wbwe");
    expect_words((tfos__stopping){.patience = 2}, (const double[]){INFINITY, 5, -INFINITY}, "bbb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_tell_what_is_better),
        cmocka_unit_test(test_patience_is_over_after_so_many_epochs),
        cmocka_unit_test(test_what_is_no_number_is_never_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What nvidia-smi prints, in its forms, and nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "helper_records.h"
#include "node/gpu.h"

static const char *free_list(const tfos__gpus *gpus)
{
    static char text[4096];
    tfos__gpus_free_list(gpus, text, sizeof text);
    return text;
}

static void test_query(void **state)
{
    (void)state;
    tfos__gpus gpus;
    assert_int_equal(tfos__gpus_read_query("0, GPU-a\n 1,GPU-b \r\n\n12, GPU-c", &gpus, NULL), TFOS_OK);
    assert_int_equal(gpus.count, 3);
    assert_string_equal(gpus.at[1].uuid, "GPU-b");
    assert_string_equal(free_list(&gpus), "0,1,12");
    tfos__gpus_mark_busy(&gpus, "GPU-b\nGPU-b\nGPU-unknown\n[Not Supported]\n");
    assert_string_equal(free_list(&gpus), "0,12");
    assert_int_equal(tfos__gpus_read_query("", &gpus, NULL), TFOS_OK);
    assert_int_equal(gpus.count, 0);
    assert_string_equal(free_list(&gpus), "");
}

static void test_list(void **state)
{
    (void)state;
    tfos__gpus gpus;
    assert_int_equal(tfos__gpus_read_list("GPU 0: Tesla K80 (UUID: GPU-a)\n"
                                          "  MIG 3g.20gb Device 0: (UUID: MIG-x)\n"
                                          "GPU 1: Old: card\n",
                                          &gpus, NULL),
                     TFOS_OK);
    assert_int_equal(gpus.count, 2);
    assert_string_equal(gpus.at[0].uuid, "GPU-a");
    assert_string_equal(gpus.at[1].uuid, "");
    assert_string_equal(free_list(&gpus), "0,1");
    tfos__gpus_mark_busy(&gpus, "\n\n"); /* an empty line names nobody */
    assert_string_equal(free_list(&gpus), "0,1");
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const queries[] = {
        "NVIDIA-SMI has failed",
        "0 GPU-a",
        ", GPU-a",
        "x, GPU-a",
        "-1, GPU-a",
        "123456789, GPU-a",
        "0, GPU-0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    };
    tfos__gpus gpus;
    tfos_error error;
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        assert_int_equal(tfos__gpus_read_query(queries[i], &gpus, &error), TFOS_CORRUPT);
        helper_expect_in(error.message, "expected a line like '0, GPU-");
    }
    static const char *const lists[] = {"No devices were found", "GPU x: card", "GPU : card", "GPU 0"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        assert_int_equal(tfos__gpus_read_list(lists[i], &gpus, &error), TFOS_CORRUPT);
    }
    char many[16 * (TFOS__GPU_MOST + 1) + 1] = "";
    for (int i = 0; i <= TFOS__GPU_MOST; i++) {
        strcat(many, "0, GPU-a\n");
    }
    assert_int_equal(tfos__gpus_read_query(many, &gpus, &error), TFOS_CORRUPT);
}

static void test_visible_devices(void **state)
{
    (void)state;
    static const struct {
        const char *visible;
        const char *free;
    } cases[] = {
        {NULL, "0,1,2"}, {"", ""},        {"1", "1"},         {"2, 0", "0,2"}, {"GPU-bb", "1"}, {"GPU-b", "1"},
        {"-1", ""},      {"0,-1,2", "0"}, {"NoDevFiles", ""}, {"GPU-", ""},    {",,1,", "1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos__gpus gpus;
        assert_int_equal(tfos__gpus_read_query("0, GPU-aa\n1, GPU-bb\n2, GPU-cc", &gpus, NULL), TFOS_OK);
        tfos__gpus_restrict(&gpus, cases[i].visible);
        assert_string_equal(free_list(&gpus), cases[i].free);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_visible_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

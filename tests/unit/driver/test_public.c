/* The laws that hold for all of tfos.h: every struct of options says its size, every enum has its pair of functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tfos.h"

/* Every number of an enum has a name of its own, which is parsed to the number. */
#define EXPECT_PAIR(noun, last)                                                                                        \
    do {                                                                                                               \
        tfos_##noun parsed_;                                                                                           \
        tfos_error error_;                                                                                             \
        for (int i_ = 0; i_ <= (int)(last); i_++) {                                                                    \
            const char *name_ = tfos_##noun##_name((tfos_##noun)i_);                                                   \
            assert_string_not_equal(name_, "unknown");                                                                 \
            assert_int_equal(tfos_##noun##_parse(name_, &parsed_, NULL), TFOS_OK);                                     \
            assert_int_equal(parsed_, i_);                                                                             \
        }                                                                                                              \
        assert_string_equal(tfos_##noun##_name((tfos_##noun)((int)(last) + 1)), "unknown");                            \
        assert_int_equal(tfos_##noun##_parse("no such word", &parsed_, &error_), TFOS_INVALID);                        \
        assert_non_null(strstr(error_.message, "'no such word': expected "));                                          \
        assert_non_null(strstr(error_.message, tfos_##noun##_name(last)));                                             \
    } while (0)

static void test_enums_have_names(void **state)
{
    (void)state;
    EXPECT_PAIR(status, TFOS_RAISED);
    EXPECT_PAIR(fault, TFOS_FAULT_CLUSTER);
    EXPECT_PAIR(log_level, TFOS_LOG_DEBUG);
    EXPECT_PAIR(type, TFOS_TYPE_BINARY);
    EXPECT_PAIR(shape, TFOS_SHAPE_RAGGED);
    EXPECT_PAIR(record_kind, TFOS_RECORD_BYTES);
    EXPECT_PAIR(layout, TFOS_LAYOUT_FIXED_LIST);
    EXPECT_PAIR(row_shape, TFOS_ROW_SPARK_TEMPLATE);
    EXPECT_PAIR(row_form, TFOS_ROW_FORM_ARRAY);
    EXPECT_PAIR(row_leaf, TFOS_ROW_LEAF_NUMPY);
    EXPECT_PAIR(codec, TFOS_CODEC_ZLIB);
    EXPECT_PAIR(on_corrupt, TFOS_ON_CORRUPT_SKIP);
    EXPECT_PAIR(cluster_event_kind, TFOS_EVENT_OVER);
    EXPECT_PAIR(feed_state, TFOS_FEED_STATE_ABANDONED);
    EXPECT_PAIR(order_kind, TFOS_ORDER_OVER);
    EXPECT_PAIR(call_outcome, TFOS_CALL_FAILED);
    EXPECT_PAIR(feeder_wait, TFOS_WAIT_FOR_ROOM);
    EXPECT_PAIR(spark_value, TFOS_SPARK_VALUE_BYTES);
}

/* A call with options without a size, or with one of a later version, does nothing and says what to do. */
#define EXPECT_SIZE(type, call)                                                                                        \
    do {                                                                                                               \
        struct type options = {0};                                                                                     \
        assert_int_equal(call, TFOS_INVALID);                                                                          \
        assert_non_null(strstr(error.message, #type ": its size is 0; fill it in with " #type "_init"));               \
        options.size = sizeof options + 1;                                                                             \
        assert_int_equal(call, TFOS_INVALID);                                                                          \
        assert_non_null(strstr(error.message, "newer version"));                                                       \
    } while (0)

static void test_options_say_their_size(void **state)
{
    (void)state;
    tfos_error error;
    tfos_reader *reader;
    tfos_writer *writer;
    tfos_schema *schema;
    tfos_cluster *cluster;
    tfos_feeder *feeder;
    tfos_driver *driver;
    uint64_t feed;
    const tfos_paths none = {0};
    EXPECT_SIZE(tfos_read_options, tfos_reader_open(&none, &options, &reader, &error));
    EXPECT_SIZE(tfos_read_options, tfos_schema_infer(&none, &options, &schema, &error));
    EXPECT_SIZE(tfos_read_options, tfos_records_verify(&none, &options, false, NULL, NULL, NULL, &error));
    EXPECT_SIZE(tfos_write_options, tfos_writer_open("/nowhere", &options, &writer, &error));
    EXPECT_SIZE(tfos_cluster_options, tfos_cluster_open(&options, &cluster, &error));
    EXPECT_SIZE(tfos_feed_options, tfos_cluster_open_feed(NULL, &options, &feed, &error));
    EXPECT_SIZE(tfos_feeder_options, tfos_feeder_open(&options, &feeder, &error));
    EXPECT_SIZE(tfos_driver_options, tfos_driver_open(&options, &driver, &error));
    EXPECT_SIZE(tfos_spark_view, tfos_driver_report_spark(NULL, &options, &error));
    EXPECT_SIZE(tfos_feed_call, tfos_driver_feed(NULL, &options, &feed, &error));
    EXPECT_SIZE(tfos_feed_options, tfos_driver_open_feed(NULL, &options, &feed, &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enums_have_names),
        cmocka_unit_test(test_options_say_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

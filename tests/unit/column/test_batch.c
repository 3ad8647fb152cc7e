/* Batches: references, the pool that keeps their memory, and the Arrow structs that show them to others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "column/batch.h"
#include "helper_records.h"
#include "helper_text.h"

static tfos_schema *all_shapes(void)
{
    return helper_schema("{\"record\": \"sequence_example\", \"fields\": ["
                         "{\"name\": \"number\", \"type\": \"int64\"},"
                         "{\"name\": \"text\", \"type\": \"string\", \"nullable\": true},"
                         "{\"name\": \"image\", \"type\": \"float\", \"shape\": [2], \"nullable\": true},"
                         "{\"name\": \"tags\", \"type\": \"binary\", \"shape\": [null]},"
                         "{\"name\": \"flags\", \"type\": \"bool\", \"shape\": [null], \"feature_list\": true}]}");
}

static void fill(tfos_batch *batch, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++) {
        tfos__vector *text = tfos__batch_vector(batch, 1);
        tfos__vector *image = tfos__batch_vector(batch, 2);
        tfos__vector *tags = tfos__batch_vector(batch, 3);
        tfos__vector *flags = tfos__batch_vector(batch, 4);
        assert_int_equal(tfos__vector_push_int(tfos__batch_vector(batch, 0), row, NULL), TFOS_OK);
        assert_int_equal(row % 2 ? tfos__vector_push_null(text, NULL) : tfos__vector_push_bytes(text, "hi", 2, NULL),
                         TFOS_OK);
        if (row % 3 == 2) {
            assert_int_equal(tfos__vector_push_null(image, NULL), TFOS_OK);
        } else {
            assert_int_equal(tfos__vector_push_real(image->child, 0.5, NULL), TFOS_OK);
            assert_int_equal(tfos__vector_push_real(image->child, (double)row, NULL), TFOS_OK);
            assert_int_equal(tfos__vector_push_list(image, NULL), TFOS_OK);
        }
        assert_int_equal(tfos__vector_push_bytes(tags->child, "t", 1, NULL), TFOS_OK);
        assert_int_equal(tfos__vector_push_list(tags, NULL), TFOS_OK);
        assert_int_equal(tfos__vector_push_int(flags->child->child, 1, NULL), TFOS_OK);
        assert_int_equal(tfos__vector_push_list(flags->child, NULL), TFOS_OK);
        assert_int_equal(tfos__vector_push_list(flags, NULL), TFOS_OK);
    }
    assert_int_equal(tfos__batch_finish(batch, rows, NULL), TFOS_OK);
}

static tfos_batch *new_batch(int64_t rows)
{
    tfos_schema *schema = all_shapes();
    tfos_batch *batch = NULL;
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    tfos_schema_free(schema); /* the batch has its own reference */
    fill(batch, rows);
    return batch;
}

static void test_a_batch_shows_its_columns(void **state)
{
    (void)state;
    tfos_batch *batch = new_batch(3);
    assert_int_equal(tfos_batch_rows(batch), 3);
    assert_true(tfos_batch_bytes(batch) > 0);
    assert_int_equal(tfos_batch_column(batch, 1)->null_count, 1);
    assert_int_equal(tfos_batch_column(batch, 2)->child->length, 6);
    assert_int_equal(tfos_batch_column(batch, 4)->child->child->type, TFOS_TYPE_BOOL);
    tfos__buffer text = {0};
    helper_show_batch(batch, &text);
    char *found = helper_string(&text);
    helper_expect_text(
        found, "{\"number\": 0, \"text\": \"hi\", \"image\": [0.5, 0.0], \"tags\": [\"dA==\"], \"flags\": [[true]]}\n"
               "{\"number\": 1, \"text\": null, \"image\": [0.5, 1.0], \"tags\": [\"dA==\"], \"flags\": [[true]]}\n"
               "{\"number\": 2, \"text\": \"hi\", \"image\": null, \"tags\": [\"dA==\"], \"flags\": [[true]]}\n");
    free(found);
    tfos__buffer_reset(&text);
    assert_ptr_equal(tfos_batch_retain(batch), batch);
    tfos_batch_free(batch);
    assert_int_equal(tfos_batch_rows(batch), 3);
    tfos_batch_free(batch);
    tfos_batch_free(NULL);
}

static void test_an_empty_batch_has_buffers(void **state)
{
    (void)state;
    tfos_batch *batch = new_batch(0);
    struct ArrowArray array;
    assert_int_equal(tfos_batch_export(batch, &array, NULL, NULL), TFOS_OK);
    assert_int_equal(array.length, 0);
    assert_non_null(array.children[0]->buffers[1]);
    assert_int_equal(((const int32_t *)array.children[1]->buffers[1])[0], 0);
    assert_non_null(array.children[1]->buffers[2]);
    array.release(&array);
    tfos_batch_free(batch);
}

/* ---- pool ---- */

static void test_the_pool_gives_memory_again(void **state)
{
    (void)state;
    tfos_schema *schema = all_shapes();
    tfos__batch_pool *pool = NULL;
    tfos_batch *first = NULL;
    tfos_batch *again = NULL;
    assert_int_equal(tfos__batch_pool_new(schema, 1, &pool, NULL), TFOS_OK);
    tfos_schema_free(schema);
    assert_int_equal(tfos__batch_take(pool, &first, NULL), TFOS_OK);
    fill(first, 50);
    const void *data = tfos_batch_column(first, 0)->data;
    tfos_batch_free(first);
    assert_int_equal(tfos__batch_take(pool, &again, NULL), TFOS_OK);
    assert_int_equal(tfos_batch_rows(again), 0);
    fill(again, 2);
    assert_ptr_equal(tfos_batch_column(again, 0)->data, data);
    /* Nothing of the rows before is seen. */
    assert_int_equal(tfos_batch_rows(again), 2);
    assert_int_equal(tfos_batch_column(again, 1)->null_count, 1);
    assert_int_equal(tfos_batch_column(again, 2)->null_count, 0);
    assert_null(tfos_batch_column(again, 2)->validity);
    tfos_batch_free(again);
    tfos__batch_pool_free(pool);
    tfos__batch_pool_free(NULL);
}

static void test_batches_outlive_their_pool(void **state)
{
    (void)state;
    tfos_schema *schema = all_shapes();
    tfos__batch_pool *pool = NULL;
    tfos_batch *batches[5];
    assert_int_equal(tfos__batch_pool_new(schema, 2, &pool, NULL), TFOS_OK);
    tfos_schema_free(schema);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tfos__batch_take(pool, &batches[i], NULL), TFOS_OK);
        fill(batches[i], i);
    }
    for (int i = 0; i < 3; i++) { /* two are kept, one is too many */
        tfos_batch_free(batches[i]);
    }
    tfos__batch_pool_free(pool);
    for (int i = 3; i < 5; i++) {
        assert_int_equal(tfos_batch_rows(batches[i]), i);
        assert_string_equal(tfos_schema_field(tfos_batch_schema(batches[i]), 0)->name, "number");
        tfos_batch_free(batches[i]);
    }
}

/* ---- Arrow ---- */

static void test_export_of_the_type(void **state)
{
    (void)state;
    tfos_schema *schema = all_shapes();
    struct ArrowSchema type;
    assert_int_equal(tfos_schema_export(schema, &type, NULL), TFOS_OK);
    tfos_schema_free(schema);
    static const struct {
        const char *name;
        const char *format;
        int64_t flags;
    } expected[] = {{"number", "l", 0},
                    {"text", "u", ARROW_FLAG_NULLABLE},
                    {"image", "+w:2", ARROW_FLAG_NULLABLE},
                    {"tags", "+l", 0},
                    {"flags", "+l", 0}};
    assert_string_equal(type.format, "+s");
    assert_int_equal(type.n_children, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(type.children[i]->name, expected[i].name);
        assert_string_equal(type.children[i]->format, expected[i].format);
        assert_int_equal(type.children[i]->flags, expected[i].flags);
        assert_int_equal(type.children[i]->metadata != NULL, i == 4);
        assert_null(type.children[i]->dictionary);
    }
    assert_string_equal(type.children[2]->children[0]->format, "f");
    assert_string_equal(type.children[2]->children[0]->name, "item");
    assert_string_equal(type.children[3]->children[0]->format, "z");
    assert_string_equal(type.children[4]->children[0]->format, "+l");
    assert_string_equal(type.children[4]->children[0]->children[0]->format, "b");
    /* One pair: key and value, each with its length before it. */
    const uint8_t *metadata = (const uint8_t *)type.children[4]->metadata;
    size_t key_bytes = strlen(TFOS__ARROW_FEATURE_LIST_KEY);
    assert_int_equal(tfos__load_u32(metadata), 1);
    assert_int_equal(tfos__load_u32(metadata + 4), key_bytes);
    assert_memory_equal(metadata + 8, TFOS__ARROW_FEATURE_LIST_KEY, key_bytes);
    assert_int_equal(tfos__load_u32(metadata + 8 + key_bytes), 1);
    assert_int_equal(metadata[12 + key_bytes], '1');
    type.release(&type);
    assert_null(type.release);
}

static void test_every_type_has_its_format(void **state)
{
    (void)state;
    static const char *const formats[] = {"i", "l", "f", "g", "b", "u", "z"};
    tfos_schema *schema = NULL;
    struct ArrowSchema type;
    assert_int_equal(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL), TFOS_OK);
    for (int i = 0; i < 7; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(tfos_schema_add(schema, &(tfos_field){.name = name, .type = (tfos_type)i}, NULL), TFOS_OK);
    }
    assert_int_equal(tfos_schema_export(schema, &type, NULL), TFOS_OK);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(type.children[i]->format, formats[i]);
    }
    type.release(&type);
    tfos_schema_free(schema);
}

static void test_export_without_copying(void **state)
{
    (void)state;
    tfos_batch *batch = new_batch(10);
    struct ArrowArray array;
    struct ArrowSchema type;
    assert_int_equal(tfos_batch_export(batch, &array, &type, NULL), TFOS_OK);
    assert_int_equal(array.length, 10);
    assert_int_equal(array.n_buffers, 1);
    assert_int_equal(array.n_children, type.n_children);
    assert_int_equal(array.children[0]->n_buffers, 2);
    assert_int_equal(array.children[1]->n_buffers, 3);
    assert_int_equal(array.children[2]->n_buffers, 1);
    assert_int_equal(array.children[3]->n_buffers, 2);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(array.children[i]->length, 10);
        assert_int_equal(array.children[i]->null_count, tfos_batch_column(batch, i)->null_count);
        assert_ptr_equal(array.children[i]->buffers[0], tfos_batch_column(batch, i)->validity);
    }
    assert_ptr_equal(array.children[0]->buffers[1], tfos_batch_column(batch, 0)->data);
    assert_ptr_equal(array.children[2]->children[0]->buffers[1], tfos_batch_column(batch, 2)->child->data);
    tfos_batch_free(batch); /* the array holds it */
    assert_int_equal(((const int64_t *)array.children[0]->buffers[1])[9], 9);
    array.release(&array);
    assert_null(array.release);
    type.release(&type);
}

/* A consumer may take a child out and keep it beyond its parent. */
static void test_children_moved_out(void **state)
{
    (void)state;
    tfos_batch *batch = new_batch(10);
    struct ArrowArray array;
    struct ArrowSchema type;
    assert_int_equal(tfos_batch_export(batch, &array, &type, NULL), TFOS_OK);
    tfos_batch_free(batch);
    struct ArrowArray number = *array.children[0];
    array.children[0]->release = NULL;
    struct ArrowArray values = *array.children[2]->children[0]; /* a child of a child */
    array.children[2]->children[0]->release = NULL;
    struct ArrowSchema text = *type.children[1];
    type.children[1]->release = NULL;
    struct ArrowSchema inner = *type.children[4]->children[0];
    type.children[4]->children[0]->release = NULL;
    array.release(&array);
    type.release(&type);
    assert_int_equal(((const int64_t *)number.buffers[1])[9], 9);
    assert_true(((const float *)values.buffers[1])[0] == 0.5f);
    assert_string_equal(text.name, "text");
    assert_string_equal(inner.children[0]->format, "b");
    number.release(&number);
    values.release(&values);
    text.release(&text);
    inner.release(&inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch_shows_its_columns),   cmocka_unit_test(test_an_empty_batch_has_buffers),
        cmocka_unit_test(test_the_pool_gives_memory_again), cmocka_unit_test(test_batches_outlive_their_pool),
        cmocka_unit_test(test_export_of_the_type),          cmocka_unit_test(test_every_type_has_its_format),
        cmocka_unit_test(test_export_without_copying),      cmocka_unit_test(test_children_moved_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

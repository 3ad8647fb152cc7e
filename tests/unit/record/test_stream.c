/* Arrow streams: what a reader gives is what is in its files, and what a writer takes is what the stream gives. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "helper_records.h"

static const char NUMBERS[] = "{\"fields\": [{\"name\": \"n\", \"type\": \"int64\"}]}";

enum { ROWS = 10 };

static const char *write_numbers(void **state, const char *name)
{
    helper_bytes frames[ROWS];
    for (int i = 0; i < ROWS; i++) {
        frames[i] = helper_frame(EXAMPLE(helper_entry("n", INTS(i))));
    }
    const char *path = helper_path(state, name);
    helper_to_file(path, helper_join(frames, ROWS));
    return path;
}

/* Four rows a batch, in the calling thread or in others. */
static tfos_reader *open_reader(const char *path, int32_t threads)
{
    tfos_reader *reader;
    tfos_read_options options;
    tfos_schema *schema = helper_schema(NUMBERS);
    tfos_read_options_init(&options, sizeof options);
    options.schema = schema;
    options.batch_rows = 4;
    options.threads = threads;
    assert_int_equal(tfos_reader_open(helper_paths(path), &options, &reader, NULL), TFOS_OK);
    tfos_schema_free(schema);
    return reader;
}

static void expect_rows(struct ArrowArrayStream *stream, int64_t first, int64_t rows)
{
    struct ArrowArray array;
    assert_int_equal(stream->get_next(stream, &array), 0);
    assert_int_equal(array.length, rows);
    const int64_t *values = array.children[0]->buffers[1];
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(values[i], first + i);
    }
    array.release(&array);
}

static void expect_end(struct ArrowArrayStream *stream)
{
    struct ArrowArray array;
    assert_int_equal(stream->get_next(stream, &array), 0);
    assert_null(array.release);
}

static void test_a_stream_has_the_batches_of_its_reader(void **state)
{
    const char *path = write_numbers(state, "f");
    for (int32_t threads = 0; threads < 3; threads++) {
        struct ArrowArrayStream stream, second;
        struct ArrowSchema schema;
        tfos_batch *batch;
        tfos_reader *reader = open_reader(path, threads);
        assert_int_equal(tfos_reader_stream(reader, &stream, NULL), TFOS_OK);
        assert_int_equal(tfos_reader_stream(reader, &second, NULL), TFOS_OK);
        assert_int_equal(stream.get_schema(&stream, &schema), 0);
        assert_string_equal(schema.children[0]->name, "n");
        assert_string_equal(schema.children[0]->format, "l");
        schema.release(&schema);
        assert_null(stream.get_last_error(&stream));
        expect_rows(&stream, 0, 4);
        assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_OK); /* all take from the same batches */
        assert_int_equal(tfos_batch_rows(batch), 4);
        tfos_batch_free(batch);
        tfos_reader_close(reader);
        expect_rows(&second, 8, 2); /* streams outlive the reader, and each other */
        second.release(&second);
        assert_null(second.release);
        expect_end(&stream);
        expect_end(&stream);
        stream.release(&stream);
    }
}

static void test_errors_of_the_reader(void **state)
{
    struct ArrowArrayStream stream;
    struct ArrowArray array;
    const char *path = write_numbers(state, "f");
    helper_bytes whole = helper_of_file(path);
    helper_to_file(path, helper_part(whole, 0, whole.count - 3));
    tfos_reader *reader = open_reader(path, 0);
    assert_int_equal(tfos_reader_stream(reader, &stream, NULL), TFOS_OK);
    tfos_reader_close(reader);
    expect_rows(&stream, 0, 4);
    expect_rows(&stream, 4, 4);
    expect_rows(&stream, 8, 1);
    assert_int_equal(stream.get_next(&stream, &array), EINVAL);
    helper_expect_in(stream.get_last_error(&stream), "cut");
    stream.release(&stream);
}

static void test_a_cancelled_reader(void **state)
{
    struct ArrowArrayStream stream;
    struct ArrowArray array;
    tfos_reader *reader = open_reader(write_numbers(state, "f"), 1);
    assert_int_equal(tfos_reader_stream(reader, &stream, NULL), TFOS_OK);
    tfos_reader_cancel(reader);
    tfos_reader_close(reader);
    int code = 0;
    for (int i = 0; i < ROWS && code == 0; i++) { /* what was ready may come first */
        code = stream.get_next(&stream, &array);
        if (code == 0) {
            assert_non_null(array.release);
            array.release(&array);
        }
    }
    assert_int_equal(code, ECANCELED);
    stream.release(&stream);
}

/* ---- writing ---- */

static tfos_writer *open_writer(const char *path, bool (*interrupted)(void *), void *context)
{
    tfos_writer *writer;
    tfos_write_options options;
    tfos_write_options_init(&options, sizeof options);
    options.interrupted = interrupted;
    options.interrupted_context = context;
    assert_int_equal(tfos_writer_open(path, &options, &writer, NULL), TFOS_OK);
    return writer;
}

static void test_what_is_read_is_written(void **state)
{
    struct ArrowArrayStream stream;
    const char *from = write_numbers(state, "from");
    const char *to = helper_path(state, "to");
    tfos_reader *reader = open_reader(from, 2);
    assert_int_equal(tfos_reader_stream(reader, &stream, NULL), TFOS_OK);
    tfos_reader_close(reader);
    tfos_writer *writer = open_writer(to, NULL, NULL);
    assert_int_equal(tfos_writer_stream(writer, &stream, NULL), TFOS_OK);
    assert_int_equal(tfos_writer_records(writer), ROWS);
    assert_int_equal(tfos_writer_stream(writer, &stream, NULL), TFOS_OK); /* at its end: nothing follows */
    assert_int_equal(tfos_writer_records(writer), ROWS);
    stream.release(&stream);
    tfos_error error;
    assert_int_equal(tfos_writer_stream(writer, &stream, &error), TFOS_INVALID);
    helper_expect_in(error.message, "a stream can be read once");
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
    assert_true(helper_equal(helper_of_file(from), helper_of_file(to)));
}

/* A stream of somebody else: some batches of a reader's, then an error. */
typedef struct broken {
    struct ArrowArrayStream good;
    int batches;
    int schema_code;
    int code;
    const char *message;
} broken;

static int broken_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    broken *self = stream->private_data;
    return self->schema_code != 0 ? self->schema_code : self->good.get_schema(&self->good, out);
}

static int broken_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    broken *self = stream->private_data;
    return self->batches-- > 0 ? self->good.get_next(&self->good, out) : self->code;
}

static const char *broken_message(struct ArrowArrayStream *stream)
{
    return ((broken *)stream->private_data)->message;
}

static void broken_release(struct ArrowArrayStream *stream)
{
    broken *self = stream->private_data;
    self->good.release(&self->good);
    stream->release = NULL;
}

static void test_a_stream_that_fails(void **state)
{
    static const struct {
        int code;
        tfos_status status;
    } cases[] = {{EINVAL, TFOS_INVALID}, {ENOMEM, TFOS_NO_MEMORY}, {ENOSYS, TFOS_UNSUPPORTED},
                 {EIO, TFOS_IO},         {EBADF, TFOS_IO},         {ECANCELED, TFOS_CANCELLED}};
    const char *path = write_numbers(state, "f");
    const char *to = helper_path(state, "to");
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        bool schema = i % 2 == 1;
        broken self = {.batches = 2, .message = schema ? NULL : "the source broke"};
        self.schema_code = schema ? cases[i / 2].code : 0;
        self.code = cases[i / 2].code;
        struct ArrowArrayStream stream = {broken_schema, broken_next, broken_message, broken_release, &self};
        tfos_error error;
        tfos_reader *reader = open_reader(path, 0);
        assert_int_equal(tfos_reader_stream(reader, &self.good, NULL), TFOS_OK);
        tfos_reader_close(reader);
        tfos_writer *writer = open_writer(to, NULL, NULL);
        assert_int_equal(tfos_writer_stream(writer, &stream, &error), cases[i / 2].status);
        helper_expect_in(error.message, "the Arrow stream failed: ");
        helper_expect_in(error.message, schema ? strerror(self.code) : "the source broke");
        stream.release(&stream);
        assert_int_equal(tfos_writer_records(writer), schema ? 0 : 8);
        assert_int_equal(tfos_writer_write_record(writer, "x", 1, NULL), TFOS_OK); /* the writer can go on */
        tfos_writer_abort(writer);
    }
}

static bool say_yes(void *context)
{
    ++*(int *)context;
    return true;
}

static void test_an_interrupted_writer(void **state)
{
    struct ArrowArrayStream stream;
    tfos_error error;
    int asked = 0;
    tfos_reader *reader = open_reader(write_numbers(state, "f"), 0);
    assert_int_equal(tfos_reader_stream(reader, &stream, NULL), TFOS_OK);
    tfos_reader_close(reader);
    tfos_writer *writer = open_writer(helper_path(state, "to"), say_yes, &asked);
    assert_int_equal(tfos_writer_stream(writer, &stream, &error), TFOS_CANCELLED);
    assert_int_equal(asked, 1);
    assert_int_equal(tfos_writer_close(writer, &error), TFOS_CANCELLED);
    assert_false(helper_exists(helper_path(state, "to")));
    stream.release(&stream);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_a_stream_has_the_batches_of_its_reader),
        IN_FOLDER(test_errors_of_the_reader),
        IN_FOLDER(test_a_cancelled_reader),
        IN_FOLDER(test_what_is_read_is_written),
        IN_FOLDER(test_a_stream_that_fails),
        IN_FOLDER(test_an_interrupted_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

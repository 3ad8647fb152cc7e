/* Readers and writers as ends of Arrow's C stream interface: whatever speaks it takes the batches of a reader, or gives
 * the rows of a file, without anybody in between. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- the reader's ---- */

typedef struct stream_state {
    tfos_reader *reader; /* a reference of the stream's own */
    tfos_error error;
} stream_state;

/* The streams of Arrow know no statuses, but errno's numbers. */
static int errno_of(tfos_status status)
{
    return status == TFOS_OK            ? 0
           : status == TFOS_NO_MEMORY   ? ENOMEM
           : status == TFOS_CANCELLED   ? ECANCELED
           : status == TFOS_UNSUPPORTED ? ENOSYS
           : status == TFOS_IO          ? EIO
                                        : EINVAL;
}

static tfos_status status_of(int number)
{
    return number == EINVAL      ? TFOS_INVALID
           : number == ENOMEM    ? TFOS_NO_MEMORY
           : number == ECANCELED ? TFOS_CANCELLED
           : number == ENOSYS    ? TFOS_UNSUPPORTED
                                 : TFOS_IO;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    stream_state *state = stream->private_data;
    return errno_of(tfos_schema_export(tfos_reader_schema(state->reader), out, &state->error));
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    stream_state *state = stream->private_data;
    tfos_batch *batch;
    tfos_status status = tfos_reader_next(state->reader, &batch, &state->error);
    if (status == TFOS_END) {
        *out = (struct ArrowArray){.release = NULL};
        return 0;
    }
    if (status == TFOS_OK) {
        status = tfos_batch_export(batch, out, NULL, &state->error);
        tfos_batch_free(batch);
    }
    return errno_of(status);
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    const stream_state *state = stream->private_data;
    return state->error.status == TFOS_OK ? NULL : state->error.message;
}

static void release(struct ArrowArrayStream *stream)
{
    stream_state *state = stream->private_data;
    tfos_reader_close(state->reader);
    free(state);
    stream->release = NULL;
}

tfos_status tfos_reader_stream(tfos_reader *reader, struct ArrowArrayStream *out, tfos_error *error)
{
    stream_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return tfos__fail_memory(error, sizeof *state);
    }
    state->reader = tfos_reader_retain(reader);
    *out = (struct ArrowArrayStream){.get_schema = get_schema,
                                     .get_next = get_next,
                                     .get_last_error = get_last_error,
                                     .release = release,
                                     .private_data = state};
    return TFOS_OK;
}

/* ---- the writer's ---- */

static tfos_status fail_stream(struct ArrowArrayStream *stream, int number, tfos_error *error)
{
    const char *message = stream->get_last_error(stream);
    return tfos__fail(error, status_of(number), "the Arrow stream failed: %s",
                      message != NULL ? message : strerror(number));
}

static tfos_status write_arrays(tfos_writer *writer, struct ArrowArrayStream *stream, const struct ArrowSchema *schema,
                                tfos_error *error)
{
    for (;;) {
        struct ArrowArray array = {0};
        int number = stream->get_next(stream, &array);
        if (number != 0) {
            return fail_stream(stream, number, error);
        }
        if (array.release == NULL) {
            return TFOS_OK;
        }
        tfos_status status = tfos_writer_write_arrow(writer, &array, schema, error);
        array.release(&array);
        TFOS_TRY(status);
    }
}

tfos_status tfos_writer_stream(tfos_writer *writer, struct ArrowArrayStream *stream, tfos_error *error)
{
    if (stream->release == NULL) {
        return tfos__fail(error, TFOS_INVALID, "the Arrow stream was released: a stream can be read once");
    }
    struct ArrowSchema schema = {0};
    int number = stream->get_schema(stream, &schema);
    if (number != 0) {
        return fail_stream(stream, number, error);
    }
    tfos_status status = write_arrays(writer, stream, &schema, error);
    schema.release(&schema);
    return status;
}

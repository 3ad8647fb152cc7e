/* Event files. Of tensorflow.Event and what is in it:
 *
 *   Event      1 wall_time double   2 step   3 file_version   4 graph_def   5 summary
 *   Summary    1 value: 1 tag   8 tensor   9 metadata
 *   tensor     1 dtype   2 shape, empty   5 float_val, packed
 *   metadata   1 plugin_data: 1 plugin_name   4 data_class */
#include "tensorflow/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/status.h"
#include "base/wire.h"
#include "fs/fs.h"
#include "record/frame.h"

enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_GRAPH, EVENT_SUMMARY };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { HOST_BYTES = 256, NUMBERS_BYTES = 16 };

struct tfos__events {
    int file;
    char *path;
    tfos__buffer record;
};

/* ---- fields ---- */

static tfos_status put_tag(tfos__buffer *to, uint32_t field, uint32_t type, tfos_error *error)
{
    uint8_t bytes[NUMBERS_BYTES];
    uint8_t *end = tfos__wire_put_varint(bytes, TFOS__WIRE_TAG(field, type));
    return tfos__buffer_append(to, bytes, (size_t)(end - bytes), error);
}

static tfos_status put_number(tfos__buffer *to, uint32_t field, uint64_t value, tfos_error *error)
{
    uint8_t bytes[NUMBERS_BYTES];
    TFOS_TRY(put_tag(to, field, TFOS__WIRE_VARINT, error));
    uint8_t *end = tfos__wire_put_varint(bytes, value);
    return tfos__buffer_append(to, bytes, (size_t)(end - bytes), error);
}

static tfos_status put_bytes(tfos__buffer *to, uint32_t field, const void *value, size_t count, tfos_error *error)
{
    uint8_t bytes[NUMBERS_BYTES];
    TFOS_TRY(put_tag(to, field, TFOS__WIRE_BYTES, error));
    uint8_t *end = tfos__wire_put_varint(bytes, count);
    TFOS_TRY(tfos__buffer_append(to, bytes, (size_t)(end - bytes), error));
    return tfos__buffer_append(to, value, count, error);
}

/* ---- records ---- */

static tfos_status begin(tfos__events *self, int64_t step, tfos_error *error)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    self->record.size = 0;
    TFOS_TRY(tfos__buffer_reserve(&self->record, TFOS__FRAME_HEADER_BYTES, error));
    self->record.size = TFOS__FRAME_HEADER_BYTES;
    TFOS_TRY(put_tag(&self->record, EVENT_TIME, TFOS__WIRE_FIXED64, error));
    TFOS_TRY(tfos__buffer_append(&self->record, &seconds, sizeof seconds, error));
    return step != 0 ? put_number(&self->record, EVENT_STEP, (uint64_t)step, error) : TFOS_OK;
}

static tfos_status end(tfos__events *self, tfos_error *error)
{
    uint8_t footer[TFOS__FRAME_FOOTER_BYTES];
    tfos__buffer *record = &self->record;
    size_t payload = record->size - TFOS__FRAME_HEADER_BYTES;
    tfos__frame_put_header(record->data, payload);
    tfos__frame_put_footer(footer, record->data + TFOS__FRAME_HEADER_BYTES, payload);
    TFOS_TRY(tfos__buffer_append(record, footer, sizeof footer, error));
    for (size_t done = 0; done < record->size;) {
        ssize_t count = write(self->file, record->data + done, record->size - done);
        if (count < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "%s", self->path);
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return TFOS_OK;
}

/* ---- files ---- */

void tfos__events_close(tfos__events *events)
{
    if (events != NULL) {
        if (events->file >= 0) {
            close(events->file);
        }
        tfos__buffer_reset(&events->record);
        free(events->path);
        free(events);
    }
}

static char *make_path(const char *folder)
{
    static atomic_uint number;
    char host[HOST_BYTES] = "localhost";
    char *path = NULL;
    gethostname(host, sizeof host - 1);
    int code = asprintf(&path, "%s/events.out.tfevents.%lld.%s.%ld.%u.v2", folder, (long long)time(NULL), host,
                        (long)getpid(), atomic_fetch_add(&number, 1));
    return code >= 0 ? path : NULL;
}

static tfos_status open_file(tfos__events *self, const char *folder, tfos_error *error)
{
    static const char version[] = "brain.Event:2";
    self->path = make_path(folder);
    if (self->path == NULL) {
        return tfos__fail_memory(error, strlen(folder));
    }
    TFOS_TRY(tfos__folder_make(folder, error));
    self->file = open(self->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (self->file < 0) {
        return tfos__fail_errno(error, errno, "%s", self->path);
    }
    TFOS_TRY(begin(self, 0, error));
    TFOS_TRY(put_bytes(&self->record, EVENT_VERSION, version, sizeof version - 1, error));
    return end(self, error);
}

tfos_status tfos__events_open(const char *folder, tfos__events **out, tfos_error *error)
{
    tfos__events *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return tfos__fail_memory(error, sizeof *self);
    }
    self->file = -1;
    tfos_status status = open_file(self, folder, error);
    if (status != TFOS_OK) {
        tfos__events_close(self);
        return status;
    }
    *out = self;
    return TFOS_OK;
}

/* ---- what is told ---- */

/* The tensor of a scalar: dtype 1 (float), an empty shape, one float. */
static tfos_status put_tensor(tfos__buffer *to, double value, tfos_error *error)
{
    uint8_t tensor[] = {0x08, 1, 0x12, 0, 0x2A, sizeof(float), 0, 0, 0, 0};
    float number = (float)value;
    memcpy(tensor + sizeof tensor - sizeof number, &number, sizeof number);
    return put_bytes(to, VALUE_TENSOR, tensor, sizeof tensor, error);
}

/* That it is for the plugin "scalars", whose data class is 1. */
static tfos_status put_metadata(tfos__buffer *to, tfos_error *error)
{
    static const uint8_t metadata[] = {0x0A, 9, 0x0A, 7, 's', 'c', 'a', 'l', 'a', 'r', 's', 0x20, 1};
    return put_bytes(to, VALUE_METADATA, metadata, sizeof metadata, error);
}

tfos_status tfos__events_scalar(tfos__events *events, const char *tag, int64_t step, double value, tfos_error *error)
{
    tfos__buffer inner = {0};
    tfos__buffer summary = {0};
    tfos_status status = put_bytes(&inner, VALUE_TAG, tag, strlen(tag), error);
    status = status == TFOS_OK ? put_tensor(&inner, value, error) : status;
    status = status == TFOS_OK ? put_metadata(&inner, error) : status;
    status = status == TFOS_OK ? put_bytes(&summary, SUMMARY_VALUE, inner.data, inner.size, error) : status;
    status = status == TFOS_OK ? begin(events, step, error) : status;
    status = status == TFOS_OK ? put_bytes(&events->record, EVENT_SUMMARY, summary.data, summary.size, error) : status;
    status = status == TFOS_OK ? end(events, error) : status;
    tfos__buffer_reset(&inner);
    tfos__buffer_reset(&summary);
    return status;
}

tfos_status tfos__events_graph(tfos__events *events, const void *graph, size_t bytes, tfos_error *error)
{
    TFOS_TRY(begin(events, 0, error));
    TFOS_TRY(put_bytes(&events->record, EVENT_GRAPH, graph, bytes, error));
    return end(events, error);
}

#include "helper_text.h"

#include <assert.h>
#include <stdlib.h>

#include "column/schema.h"
#include "record/json_lines.h"

static tfos_status read_memory(void *context, void *to, size_t bytes, size_t *got, tfos_error *error)
{
    (void)error;
    helper_text *self = context;
    size_t left = self->count - self->at;
    *got = left < bytes ? left : bytes;
    *got = *got < self->step ? *got : self->step;
    if (*got > 0) {
        memcpy(to, self->bytes + self->at, *got);
    }
    self->at += *got;
    return TFOS_OK;
}

void helper_text_open(helper_text *self, const char *bytes, size_t count, size_t step)
{
    *self = (helper_text){.bytes = bytes, .count = count, .step = step};
    tfos__text_init(&self->text, "in", read_memory, self);
}

void helper_text_close(helper_text *self)
{
    tfos__text_reset(&self->text);
}

void helper_show_batch(const tfos_batch *batch, tfos__buffer *out)
{
    for (int64_t row = 0; row < tfos_batch_rows(batch); row++) {
        tfos_status status = tfos__json_write_row(batch, row, out, NULL);
        assert(status == TFOS_OK);
        status = tfos__buffer_append(out, "\n", 1, NULL);
        assert(status == TFOS_OK);
    }
}

char *helper_show_schema(const tfos_schema *schema)
{
    tfos__buffer text = {0};
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        char type[64];
        tfos__field_describe(field, type, sizeof type);
        tfos_status status = tfos__buffer_printf(&text, NULL, "%s%s %s%s", i == 0 ? "" : ", ", field->name, type,
                                                 field->nullable ? " nullable" : "");
        assert(status == TFOS_OK);
    }
    char *string = helper_string(&text);
    tfos__buffer_reset(&text);
    return string;
}

char *helper_string(const tfos__buffer *buffer)
{
    char *string = buffer->size > 0 ? strndup((const char *)buffer->data, buffer->size) : strdup("");
    assert(string != NULL);
    return string;
}

/* Status and error. The message lives in the caller's tfos_error, so that reporting "out of memory" needs no memory. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/choice.h"

const char *tfos_version(void)
{
    return TFOS_VERSION;
}

static const char *const status_names[] = {
#define NAME(name, value, fault, text) [value] = #name,
    TFOS_STATUS_MAP(NAME)
#undef NAME
        NULL,
};

const char *tfos_status_name(tfos_status status)
{
    return tfos__choice_name(status_names, (unsigned)status);
}

tfos_status tfos_status_parse(const char *text, tfos_status *out, tfos_error *error)
{
    int number;
    TFOS_TRY(tfos__choice_parse("status", status_names, text, &number, error));
    *out = (tfos_status)number;
    return TFOS_OK;
}

const char *tfos_status_text(tfos_status status)
{
    switch (status) {
#define TEXT(name, value, fault, text)                                                                                 \
    case TFOS_##name:                                                                                                  \
        return text;
        TFOS_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "unknown status";
}

static const char *const fault_names[] = {"again", "final", "program", "cluster", NULL};
TFOS__CHOICE_FUNCTIONS(fault, "fault", fault_names)

tfos_fault tfos__status_fault(tfos_status status)
{
    switch (status) {
#define FAULT(name, value, fault, text)                                                                                \
    case TFOS_##name:                                                                                                  \
        return TFOS_FAULT_##fault;
        TFOS_STATUS_MAP(FAULT)
#undef FAULT
    }
    return TFOS_FAULT_AGAIN;
}

/* A message that was cut by the size of the struct must still be valid UTF-8, since Python and Java decode it. */
static void trim_partial_character(char *message, size_t length)
{
    size_t start = length;
    while (start > 0 && ((unsigned char)message[start - 1] & 0xC0) == 0x80) {
        start--;
    }
    if (start == 0) {
        return;
    }
    unsigned char lead = (unsigned char)message[start - 1];
    size_t need = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    if (length - start < need) {
        message[start - 1] = '\0';
    }
}

__attribute__((format(printf, 3, 0))) static void fill(tfos_error *error, tfos_status status, const char *format,
                                                       va_list arguments)
{
    error->status = status;
    error->fault = tfos__status_fault(status);
    int length = vsnprintf(error->message, sizeof error->message, format, arguments);
    if (length >= (int)sizeof error->message) {
        trim_partial_character(error->message, sizeof error->message - 1);
    }
}

tfos_status tfos__fail(tfos_error *error, tfos_status status, const char *format, ...)
{
    if (error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        fill(error, status, format, arguments);
        va_end(arguments);
    }
    return status;
}

static tfos_status status_of_errno(int error_number)
{
    switch (error_number) {
    case ENOENT:
    case ENOTDIR:
        return TFOS_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return TFOS_PERMISSION;
    case EEXIST:
        return TFOS_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return TFOS_NO_SPACE;
    case ENOMEM:
        return TFOS_NO_MEMORY;
    default:
        return TFOS_IO;
    }
}

tfos_status tfos__fail_errno(tfos_error *error, int error_number, const char *format, ...)
{
    tfos_status status = status_of_errno(error_number);
    if (error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        fill(error, status, format, arguments);
        va_end(arguments);
        size_t used = strlen(error->message);
        char text[128];
        snprintf(error->message + used, sizeof error->message - used, ": %s",
                 strerror_r(error_number, text, sizeof text));
    }
    return status;
}

void tfos__error_prefix(tfos_error *error, const char *format, ...)
{
    if (error == NULL) {
        return;
    }
    char old[TFOS_ERROR_MESSAGE_BYTES];
    memcpy(old, error->message, sizeof old);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    size_t used = strlen(error->message);
    int rest = snprintf(error->message + used, sizeof error->message - used, ": %s", old);
    if (rest >= (int)(sizeof error->message - used)) {
        trim_partial_character(error->message, sizeof error->message - 1);
    }
}

tfos_status tfos__fail_memory(tfos_error *error, size_t bytes)
{
    return tfos__fail(error, TFOS_NO_MEMORY, "out of memory: %zu bytes could not be allocated", bytes);
}

/* The bytes of the character at `in` that can be shown as they are; 0 if its first byte must be escaped. */
static size_t showable(const unsigned char *in, size_t count)
{
    if (in[0] < 0x80) {
        return in[0] >= 0x20 && in[0] != 0x7F && in[0] != '\\';
    }
    size_t length = in[0] >= 0xF0 ? 4 : in[0] >= 0xE0 ? 3 : 2;
    bool control = in[0] == 0xC2 && count > 1 && in[1] < 0xA0; /* U+0080 to U+009F */
    return length <= count && !control && tfos__utf8_valid_prefix(in, length) == length ? length : 0;
}

tfos__printable tfos__printable_of(const void *bytes, size_t count)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *in = bytes;
    tfos__printable out;
    size_t used = 0;
    for (size_t i = 0; i < count;) {
        if (used + 8 > sizeof out.text) {
            memcpy(out.text + used, "…", 3);
            used += 3;
            break;
        }
        size_t length = showable(in + i, count - i);
        if (length > 0) {
            memcpy(out.text + used, in + i, length);
            used += length;
            i += length;
        } else {
            out.text[used++] = '\\';
            out.text[used++] = 'x';
            out.text[used++] = hex[in[i] >> 4];
            out.text[used++] = hex[in[i] & 15];
            i++;
        }
    }
    out.text[used] = '\0';
    return out;
}

tfos__printable tfos__printable_text(const char *text)
{
    return tfos__printable_of(text, strlen(text));
}

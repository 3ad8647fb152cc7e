/* Reports, from and to JSON, and as a line for people. */
#include "service/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/status.h"

/* Numbers that every report may have. */
static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
    {"epoch", offsetof(tfos__report, epoch)},
    {"epochs", offsetof(tfos__report, epochs)},
    {"step", offsetof(tfos__report, step)},
    {"steps", offsetof(tfos__report, steps)},
    {"rows", offsetof(tfos__report, rows)},
    {"steps_per_s", offsetof(tfos__report, steps_per_s)},
    {"rows_per_s", offsetof(tfos__report, rows_per_s)},
};

enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

/* False: it is neither a number nor the name of one. */
static bool read_number(struct json_object *from, double *out)
{
    if (json_object_is_type(from, json_type_double) || json_object_is_type(from, json_type_int)) {
        *out = json_object_get_double(from);
        return true;
    }
    if (json_object_is_type(from, json_type_string)) {
        char *end;
        const char *text = json_object_get_string(from);
        *out = strtod(text, &end);
        return end != text && *end == '\0';
    }
    return false;
}

/* The name, cut between two characters if it is too long, and without what is no UTF-8. */
static void copy_name(const char *name, char out[TFOS__REPORT_NAME_BYTES])
{
    size_t count = strnlen(name, TFOS__REPORT_NAME_BYTES - 1);
    count = tfos__utf8_valid_prefix(name, count);
    memcpy(out, name, count);
    out[count] = '\0';
}

static void read_values(struct json_object *values, tfos__report *out)
{
    json_object_object_foreach(values, name, each)
    {
        double value;
        if (out->count < TFOS__REPORT_VALUES && name[0] != '\0' && read_number(each, &value)) {
            copy_name(name, out->values[out->count].name);
            out->values[out->count++].value = value;
        }
    }
}

void tfos__report_read(struct json_object *object, tfos__report *out)
{
    struct json_object *found;
    *out = (tfos__report){0};
    for (size_t i = 0; i < NUMBERS; i++) {
        double *to = (double *)((char *)out + numbers[i].offset);
        if (!json_object_object_get_ex(object, numbers[i].key, &found) || !read_number(found, to)) {
            *to = NAN;
        }
    }
    out->epoch_end = json_object_get_boolean(json_object_object_get(object, "epoch_end"));
    out->aloud = json_object_get_boolean(json_object_object_get(object, "aloud"));
    if (json_object_object_get_ex(object, "values", &found) && json_object_is_type(found, json_type_object)) {
        read_values(found, out);
    }
}

tfos_status tfos__report_parse(const char *text, size_t count, tfos__report *out, tfos_error *error)
{
    enum { DEPTH = 4 };
    struct json_object *object;
    tfos__json_fault fault;
    tfos_status status = tfos__json_object_parse(text, count, DEPTH, &object, &fault, error);
    if (status == TFOS_INVALID) {
        return tfos__fail(error, TFOS_INVALID, "a report of a program is no JSON object: %s, at byte %zu", fault.what,
                          fault.at);
    }
    TFOS_TRY(status);
    tfos__report_read(object, out);
    json_object_put(object);
    return TFOS_OK;
}

struct json_object *tfos__report_number(double number)
{
    if (isfinite(number)) {
        return json_object_new_double(number);
    }
    return json_object_new_string(isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
}

struct json_object *tfos__report_json(const tfos__report *report)
{
    struct json_object *object = json_object_new_object();
    struct json_object *values = json_object_new_object();
    for (size_t i = 0; i < NUMBERS; i++) {
        double number = *(const double *)((const char *)report + numbers[i].offset);
        if (!isnan(number)) {
            json_object_object_add(object, numbers[i].key, tfos__report_number(number));
        }
    }
    json_object_object_add(object, "epoch_end", json_object_new_boolean(report->epoch_end));
    json_object_object_add(object, "aloud", json_object_new_boolean(report->aloud));
    for (size_t i = 0; i < report->count; i++) {
        json_object_object_add(values, report->values[i].name, tfos__report_number(report->values[i].value));
    }
    json_object_object_add(object, "values", values);
    return object;
}

/* ---- for people ---- */

/* Four digits say enough of a loss; whole numbers are shown whole. */
static void show(double number, char out[32])
{
    enum { WHOLE_MOST = 1000000000 };
    bool small = fabs(number) < WHOLE_MOST;
    bool whole = small && (fabs(number) >= 1000 || number == (double)(int64_t)number);
    snprintf(out, 32, whole ? "%.0f" : "%.4g", number);
}

/* "epoch 2/10". */
static tfos_status put_place(tfos__buffer *out, const char *name, double at, double of, tfos_error *error)
{
    char text[32];
    if (isnan(at)) {
        return TFOS_OK;
    }
    show(at, text);
    TFOS_TRY(tfos__buffer_printf(out, error, "%s%s %s", out->size > 0 ? " · " : "", name, text));
    if (isnan(of)) {
        return TFOS_OK;
    }
    show(of, text);
    return tfos__buffer_printf(out, error, "/%s", text);
}

static tfos_status put_rate(tfos__buffer *out, double rate, const char *unit, tfos_error *error)
{
    char text[32];
    snprintf(text, sizeof text, rate >= 100 ? "%.0f" : "%.3g", rate);
    return tfos__buffer_printf(out, error, "%s%s %s/s", out->size > 0 ? " · " : "", text, unit);
}

tfos_status tfos__report_line(const tfos__report *report, tfos__buffer *out, tfos_error *error)
{
    char text[32];
    TFOS_TRY(put_place(out, "epoch", report->epoch, report->epochs, error));
    TFOS_TRY(put_place(out, "step", report->step, report->steps, error));
    for (size_t i = 0; i < report->count; i++) {
        show(report->values[i].value, text);
        TFOS_TRY(tfos__buffer_printf(out, error, "%s%s %s", out->size > 0 ? " · " : "", report->values[i].name, text));
    }
    if (!isnan(report->rows_per_s)) {
        return put_rate(out, report->rows_per_s, "rows", error);
    }
    return isnan(report->steps_per_s) ? TFOS_OK : put_rate(out, report->steps_per_s, "steps", error);
}

/* Reports: what a program says of its progress, on its way from the program to whoever looks.
 *
 * As JSON: {"epoch": 2, "epochs": 10, "step": 640, "steps": 938, "rows": 40960, "epoch_end": true, "aloud": true,
 * "values": {"loss": 0.31, …}}; whatever is not known is left out. A number that is not finite is a string there
 * ("NaN", "Infinity", "-Infinity"), so that every reader of JSON takes it and no NaN is lost. */
#ifndef TFOS_SERVICE_REPORT_H
#define TFOS_SERVICE_REPORT_H

#include <json-c/json.h>

#include "base/bytes.h"

enum {
    TFOS__REPORT_VALUES = 32,      /* of one report; what comes behind them is left out */
    TFOS__REPORT_NAME_BYTES = 64,  /* of a value, with its end; a longer one is cut */
    TFOS__REPORT_BYTES = 64 << 10, /* of a report as JSON */
};

/* NAN: it was not said. */
typedef struct tfos__report {
    double epoch; /* from 1 */
    double epochs;
    double step; /* since the beginning */
    double steps;
    double rows; /* since the beginning */
    double steps_per_s;
    double rows_per_s;
    bool epoch_end; /* the values are those of a whole epoch */
    bool aloud;     /* a line of the driver's terminal is made of it */
    size_t count;
    struct {
        char name[TFOS__REPORT_NAME_BYTES];
        double value;
    } values[TFOS__REPORT_VALUES];
} tfos__report;

/* `object` is not kept. What has another form than it should is left out. */
void tfos__report_read(struct json_object *object, tfos__report *out);

/* The same from a text. INVALID if it is no JSON object. */
tfos_status tfos__report_parse(const char *text, size_t count, tfos__report *out, tfos_error *error);

/* As above; the caller gives it up with json_object_put. */
struct json_object *tfos__report_json(const tfos__report *report);

/* A number, or the string that stands for it. */
struct json_object *tfos__report_number(double number);

/* "epoch 2/10 · step 640/938 · loss 0.3123 · 12345 rows/s". */
tfos_status tfos__report_line(const tfos__report *report, tfos__buffer *out, tfos_error *error);

#endif

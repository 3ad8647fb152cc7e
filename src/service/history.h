/* A history: reports one behind the other, as a table with a column for each value. It is bounded: when it is full,
 * every other row goes, and from then on half as many of those that come are kept. The newest is always there. */
#ifndef TFOS_SERVICE_HISTORY_H
#define TFOS_SERVICE_HISTORY_H

#include "service/report.h"

enum { TFOS__HISTORY_COLUMNS = TFOS__REPORT_VALUES + 2 }; /* epoch and step are columns, too */

/* `{.most = N}` is empty; N is even. */
typedef struct tfos__history {
    size_t most; /* rows */
    size_t count;
    uint64_t seen;   /* reports so far … */
    uint64_t stride; /* … of which one in so many is kept; 0: nothing was seen yet */
    bool loose;      /* the last row is there because it is the newest, and the next one takes its place */
    size_t columns;
    struct {
        char name[TFOS__REPORT_NAME_BYTES];
        double *cells;
    } column[TFOS__HISTORY_COLUMNS];
    uint64_t *present; /* for each row, a bit for each column that it has */
} tfos__history;

/* A value that is one too many is left out. NO_MEMORY: so is the report, or a part of it. */
tfos_status tfos__history_add(tfos__history *history, const tfos__report *report, tfos_error *error);

/* {"epoch": [1, 2], "loss": [0.5, "NaN"], "val_loss": [null, 0.6]}: lists of equal length; null where a report had no
 * such value. The caller gives it up with json_object_put. */
struct json_object *tfos__history_json(const tfos__history *history);

void tfos__history_reset(tfos__history *history);

#endif

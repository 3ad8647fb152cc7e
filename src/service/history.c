/* Histories. */
#include "service/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

static_assert(TFOS__HISTORY_COLUMNS <= 64, "the columns of a row fit a word");

/* The column of a name, made if there is none; TFOS__HISTORY_COLUMNS when there are too many. */
static tfos_status find_column(tfos__history *history, const char *name, size_t *out, tfos_error *error)
{
    size_t at = 0;
    while (at < history->columns && strcmp(history->column[at].name, name) != 0) {
        at++;
    }
    *out = at;
    if (at < history->columns || at == TFOS__HISTORY_COLUMNS) {
        return TFOS_OK;
    }
    double *cells = calloc(history->most, sizeof *cells);
    if (cells == NULL) {
        return tfos__fail_memory(error, history->most * sizeof *cells);
    }
    snprintf(history->column[at].name, sizeof history->column[at].name, "%s", name);
    history->column[at].cells = cells;
    history->columns++;
    return TFOS_OK;
}

static tfos_status put(tfos__history *history, size_t row, const char *name, double value, tfos_error *error)
{
    size_t column;
    TFOS_TRY(find_column(history, name, &column, error));
    if (column < TFOS__HISTORY_COLUMNS) {
        history->column[column].cells[row] = value;
        history->present[row] |= UINT64_C(1) << column;
    }
    return TFOS_OK;
}

/* Every other row goes. */
static void thin_out(tfos__history *history)
{
    history->count = (history->count + 1) / 2;
    for (size_t row = 0; row < history->count; row++) {
        history->present[row] = history->present[2 * row];
        for (size_t i = 0; i < history->columns; i++) {
            history->column[i].cells[row] = history->column[i].cells[2 * row];
        }
    }
    history->stride *= 2;
}

/* The row that the next report takes. */
static tfos_status take_row(tfos__history *history, size_t *out, tfos_error *error)
{
    if (history->present == NULL) {
        assert(history->most > 0 && history->most % 2 == 0);
        history->present = calloc(history->most, sizeof *history->present);
        if (history->present == NULL) {
            return tfos__fail_memory(error, history->most * sizeof *history->present);
        }
        history->stride = 1;
    }
    if (!history->loose) {
        if (history->count == history->most) {
            thin_out(history);
        }
        history->count++;
    }
    history->loose = history->seen++ % history->stride != 0;
    *out = history->count - 1;
    history->present[*out] = 0;
    return TFOS_OK;
}

tfos_status tfos__history_add(tfos__history *history, const tfos__report *report, tfos_error *error)
{
    size_t row = 0;
    TFOS_TRY(take_row(history, &row, error));
    if (!isnan(report->epoch)) {
        TFOS_TRY(put(history, row, "epoch", report->epoch, error));
    }
    if (!isnan(report->step)) {
        TFOS_TRY(put(history, row, "step", report->step, error));
    }
    for (size_t i = 0; i < report->count; i++) {
        TFOS_TRY(put(history, row, report->values[i].name, report->values[i].value, error));
    }
    return TFOS_OK;
}

struct json_object *tfos__history_json(const tfos__history *history)
{
    struct json_object *object = json_object_new_object();
    for (size_t i = 0; i < history->columns; i++) {
        struct json_object *list = json_object_new_array();
        for (size_t row = 0; row < history->count; row++) {
            bool has = (history->present[row] >> i) & 1;
            json_object_array_add(list, has ? tfos__report_number(history->column[i].cells[row]) : NULL);
        }
        json_object_object_add(object, history->column[i].name, list);
    }
    return object;
}

void tfos__history_reset(tfos__history *history)
{
    for (size_t i = 0; i < history->columns; i++) {
        free(history->column[i].cells);
    }
    free(history->present);
    *history = (tfos__history){.most = history->most};
}

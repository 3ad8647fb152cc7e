/* Progress. */
#include "coordinator/progress.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"

typedef struct reports {
    tfos__report newest;
    tfos__history history;
    uint64_t sequence;
    uint64_t heard_ms;
} reports;

struct tfos__progress {
    const tfos__roster *roster;
    const tfos__feeds *feeds;
    void (*to_driver)(void *context, const tfos__message *message);
    void *context;
    uint32_t nodes;
    reports *node[]; /* NULL: it has reported nothing */
};

tfos_status tfos__progress_new(const tfos__roster *roster, const tfos__feeds *feeds,
                               void (*to_driver)(void *context, const tfos__message *message), void *context,
                               tfos__progress **out, tfos_error *error)
{
    uint32_t nodes = tfos__roster_options_of(roster)->roles.nodes;
    size_t bytes = sizeof(tfos__progress) + nodes * sizeof(reports *);
    tfos__progress *progress = calloc(1, bytes);
    if (progress == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    progress->roster = roster;
    progress->feeds = feeds;
    progress->to_driver = to_driver;
    progress->context = context;
    progress->nodes = nodes;
    *out = progress;
    return TFOS_OK;
}

void tfos__progress_free(tfos__progress *progress)
{
    for (uint32_t i = 0; progress != NULL && i < progress->nodes; i++) {
        if (progress->node[i] != NULL) {
            tfos__history_reset(&progress->node[i]->history);
            free(progress->node[i]);
        }
    }
    free(progress);
}

/* A line for people, as if the program had printed it. */
static void say(tfos__progress *progress, uint32_t index, const tfos__report *report)
{
    tfos__node_view node;
    tfos__message message;
    tfos__buffer line = {0};
    char name[64];
    tfos__roster_view(progress->roster, index, &node);
    tfos__node_name(node.role, node.task, name);
    if (tfos__report_line(report, &line, NULL) == TFOS_OK && line.size > 0 &&
        tfos__buffer_append(&line, "\n", 1, NULL) == TFOS_OK) {
        tfos__message_init(&message, TFOS__MESSAGE_OUTPUT);
        tfos__message_put_number(&message, TFOS__FIELD_INDEX, index);
        tfos__message_put_string(&message, TFOS__FIELD_NODE, name);
        tfos__message_put_string(&message, TFOS__FIELD_HOST, node.host);
        tfos__message_put_text(&message, TFOS__FIELD_TEXT, (const char *)line.data, line.size);
        progress->to_driver(progress->context, &message);
    }
    tfos__buffer_reset(&line);
}

/* A program that does not count its rows may be fed, and then its node does. */
static void add_fed_rate(const tfos__progress *progress, uint32_t index, tfos__report *report)
{
    tfos__fed fed;
    tfos__feeds_of_node(progress->feeds, index, &fed);
    if (isnan(report->rows) && fed.is_fed && fed.rows_per_second > 0) {
        report->rows_per_s = fed.rows_per_second;
    }
}

void tfos__progress_hear(tfos__progress *progress, uint32_t index, const tfos__message *message, uint64_t now_ms)
{
    tfos__report report;
    tfos__text text = tfos__message_text(message, TFOS__FIELD_JSON);
    uint64_t sequence = tfos__message_number(message, TFOS__FIELD_SEQUENCE);
    reports *node = progress->node[index];
    if ((node != NULL && sequence <= node->sequence) || text.count > TFOS__REPORT_BYTES ||
        tfos__report_parse(text.at, text.count, &report, NULL) != TFOS_OK) {
        return; /* sent again after a reconnect, or nonsense */
    }
    if (node == NULL) {
        node = progress->node[index] = calloc(1, sizeof *node);
        if (node == NULL) {
            return;
        }
        node->history.most = TFOS__PROGRESS_ROWS;
    }
    add_fed_rate(progress, index, &report);
    node->newest = report;
    node->sequence = sequence;
    node->heard_ms = now_ms;
    (void)tfos__history_add(&node->history, &report, NULL); /* memory that is short costs a point of a curve */
    if (report.aloud) {
        say(progress, index, &report);
    }
}

bool tfos__progress_of(const tfos__progress *progress, uint32_t index, const tfos__report **report,
                       const tfos__history **history, uint64_t *heard_ms)
{
    const reports *node = progress->node[index];
    if (node == NULL) {
        return false;
    }
    *report = &node->newest;
    *history = &node->history;
    *heard_ms = node->heard_ms;
    return true;
}

int64_t tfos__progress_first(const tfos__progress *progress)
{
    int64_t any = -1;
    for (uint32_t i = 0; i < progress->nodes; i++) {
        if (progress->node[i] != NULL) {
            if (tfos__roles_is_worker(&tfos__roster_options_of(progress->roster)->roles, i)) {
                return i;
            }
            any = any < 0 ? i : any;
        }
    }
    return any;
}

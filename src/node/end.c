/* How it ended, in words that say what to do. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "node/state.h"

__attribute__((format(printf, 3, 4))) static void decide(tfos__node *node, tfos__outcome outcome, const char *format,
                                                         ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int count = vasprintf(&text, format, arguments);
    va_end(arguments);
    node->outcome = outcome;
    node->outcome_text = count >= 0 ? text : NULL;
}

/* "1.5 GiB". */
static void show_bytes(uint64_t bytes, char out[32])
{
    double mebibytes = (double)bytes / (1 << 20);
    if (mebibytes >= 1024) {
        snprintf(out, 32, "%.1f GiB", mebibytes / 1024);
    } else {
        snprintf(out, 32, "%.0f MiB", mebibytes);
    }
}

static void decide_memory(tfos__node *node)
{
    char limit[64] = "";
    char number[32];
    char used[96] = "";
    if (node->memory_limit > 0) {
        show_bytes(node->memory_limit, number);
        snprintf(limit, sizeof limit, "its container may use %s", number);
    } else {
        snprintf(limit, sizeof limit, "the machine had none left");
    }
    if (node->rss_bytes > 0) {
        show_bytes(node->rss_bytes, number);
        snprintf(used, sizeof used, " The program and its children used %s when last seen.", number);
    }
    decide(
        node, TFOS__OUTCOME_MEMORY,
        "the kernel killed it (SIGKILL) because memory ran out: %s.%s Raise spark.executor.memoryOverhead, from which "
        "the program takes its memory (spark.executor.pyspark.memory does not apply to it), or let it use less.",
        limit, used);
}

static void decide_signal(tfos__node *node)
{
    int number = WTERMSIG(node->child_status);
    const char *name = sigabbrev_np(number);
    if (number == SIGKILL && node->memory_killed) {
        decide_memory(node);
    } else if (node->keeper_dead) {
        decide(node, TFOS__OUTCOME_KILLED, "%s", node->child_problem);
    } else if (name != NULL) {
        decide(node, TFOS__OUTCOME_KILLED, "was killed by signal %d (SIG%s, %s)%s", number, name,
               sigdescr_np(number) != NULL ? sigdescr_np(number) : "",
               WCOREDUMP(node->child_status) ? "; a core was dumped" : "");
    } else {
        decide(node, TFOS__OUTCOME_KILLED, "was killed by signal %d", number);
    }
}

/* A child that came to its end without our doing. */
static void decide_child(tfos__node *node)
{
    if (!node->child_ended) {
        decide(node, TFOS__OUTCOME_NOT_STARTED, "%s", node->child_problem);
    } else if (WIFSIGNALED(node->child_status)) {
        decide_signal(node);
    } else if (WEXITSTATUS(node->child_status) == 0) {
        decide(node, TFOS__OUTCOME_FINISHED, "finished");
    } else if (node->raised != NULL) {
        decide(node, TFOS__OUTCOME_RAISED, "%s", node->raised);
    } else {
        decide(node, TFOS__OUTCOME_EXITED, "exited with code %d", WEXITSTATUS(node->child_status));
    }
}

void tfos__node_decide_outcome(tfos__node *node)
{
    bool touched = node->stage >= TFOS__STAGE_TERM; /* by a signal of ours */
    bool had_child = node->phase >= TFOS__LIFE_STARTING;
    switch (node->cause) {
    case TFOS__CAUSE_EXECUTOR:
        decide(node, TFOS__OUTCOME_EXECUTOR_LOST, "%s", node->cause_text);
        break;
    case TFOS__CAUSE_CANCELLED:
        decide(node, TFOS__OUTCOME_CANCELLED, "%s", node->cause_text);
        break;
    case TFOS__CAUSE_STALLED:
        decide(node, TFOS__OUTCOME_STALLED, "%s", node->cause_text);
        break;
    case TFOS__CAUSE_REFUSED:
    case TFOS__CAUSE_COORDINATOR:
        decide(node, TFOS__OUTCOME_STOPPED, "%s", node->cause_text);
        break;
    case TFOS__CAUSE_NONE:
    case TFOS__CAUSE_STOP:
        if (had_child && !touched) {
            decide_child(node);
        } else if (node->keeper_dead && !had_child) {
            decide(node, TFOS__OUTCOME_NOT_STARTED, "%s", node->child_problem);
        } else {
            decide(node, TFOS__OUTCOME_STOPPED, "was stopped: %s", node->cause_text);
        }
        break;
    }
}

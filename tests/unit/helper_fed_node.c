/* A node that is fed, under a coordinator that is played. */
#include "helper_fed_node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { FEW_MS = 20000 };

int helper_fed_node_open(helper_fed_node *s)
{
    helper_coordinator_open(&s->it);
    const char *temporary = getenv("TMPDIR");
    snprintf(s->rows, sizeof s->rows, "%s/rows.XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(s->rows));
    return readlink("/proc/self/exe", s->self, sizeof s->self - 1) > 0 ? 0 : -1;
}

void helper_fed_node_close(helper_fed_node *s)
{
    helper_executor_kill(&s->executor);
    helper_executor_close(&s->executor, &s->it);
    helper_coordinator_close(&s->it);
    unlink(s->rows);
    *strrchr(s->rows, '/') = '\0';
    rmdir(s->rows);
}

void helper_fed_node_start(helper_fed_node *s, const char *mode, const char *const *settings)
{
    char folder[300];
    snprintf(folder, sizeof folder, "%s", s->rows);
    const char *const words[] = {s->self, "program", mode, "10", folder, NULL};
    helper_start start = {.program = words};
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        start.settings[i] = settings[i];
    }
    helper_executor_start(&s->executor, &s->it, &start);
    strcat(s->rows, "/rows.3");
    helper_wait_heard(&s->it, TFOS__MESSAGE_STATE, 1, FEW_MS);
    assert_true(s->it.feed_name[0] != '\0');
    assert_true(s->it.feed_port != 0);
}

void helper_fed_node_say_epoch(helper_fed_node *s, uint64_t epoch)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_EPOCH);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, 1);
    tfos__message_put_number(&message, TFOS__FIELD_EPOCH, epoch);
    tfos__link_send(s->it.link, &message);
}

typedef struct expected {
    const char *path;
    int count;
} expected;

static bool has_numbers(void *context)
{
    const expected *want = context;
    struct stat info;
    return stat(want->path, &info) == 0 && info.st_size >= want->count * (int)sizeof(int64_t);
}

void helper_fed_node_wait(helper_fed_node *s, int count)
{
    helper_wait(&s->it, has_numbers, &(expected){s->rows, count}, FEW_MS, "rows of the program");
    helper_run_for(&s->it, 100);
    assert_false(has_numbers(&(expected){s->rows, count + 1}));
}

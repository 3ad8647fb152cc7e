/* close_range where the kernel has it (Linux 5.9), else one by one. Limits are remembered in the process, and so in the
 * keeper, which is forked from it and starts the programs. */
#include "service/seclude.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct changed_limit {
    int which;
    struct rlimit before;
    bool changed;
} changed_limit;

static changed_limit core = {.which = RLIMIT_CORE};
static changed_limit files = {.which = RLIMIT_NOFILE};

/* Only the soft limit: a hard one could not be taken back. */
static void change(changed_limit *limit, rlim_t (*choose)(const struct rlimit *))
{
    limit->changed = getrlimit(limit->which, &limit->before) == 0;
    if (limit->changed) {
        setrlimit(limit->which,
                  &(struct rlimit){.rlim_cur = choose(&limit->before), .rlim_max = limit->before.rlim_max});
    }
}

static void undo(const changed_limit *limit)
{
    if (limit->changed) {
        setrlimit(limit->which, &limit->before);
    }
}

static rlim_t choose_none(const struct rlimit *before)
{
    (void)before;
    return 0;
}

static rlim_t choose_most(const struct rlimit *before)
{
    return before->rlim_max;
}

static void close_from(unsigned first)
{
#if defined(SYS_close_range)
    if (syscall(SYS_close_range, first, UINT_MAX, 0) == 0) {
        return;
    }
#endif
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry = folder != NULL ? readdir(folder) : NULL; entry != NULL; entry = readdir(folder)) {
        long file = strtol(entry->d_name, NULL, 10);
        if (file >= (long)first && file != dirfd(folder)) {
            close((int)file);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

void tfos__seclude(void)
{
    close_from(STDERR_FILENO + 1);
    change(&core, choose_none);
    change(&files, choose_most);
}

void tfos__seclude_undo(void)
{
    undo(&core);
    undo(&files);
}

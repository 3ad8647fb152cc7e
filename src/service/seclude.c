/* close_range where the kernel has it (Linux 5.9), else one by one. The limit on cores is remembered in the process,
 * and so in the keeper, which is forked from it and starts the programs. */
#include "service/seclude.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct rlimit core_before;
static bool core_changed;

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
    core_changed = getrlimit(RLIMIT_CORE, &core_before) == 0;
    if (core_changed) {
        /* Not the hard limit: that could not be taken back. */
        setrlimit(RLIMIT_CORE, &(struct rlimit){.rlim_cur = 0, .rlim_max = core_before.rlim_max});
    }
}

void tfos__seclude_undo(void)
{
    if (core_changed) {
        setrlimit(RLIMIT_CORE, &core_before);
    }
}

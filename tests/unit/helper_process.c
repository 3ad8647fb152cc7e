/* Read from /proc. */
#include "helper_process.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

size_t helper_process_threads(long pid)
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *threads = opendir(path);
    assert_non_null(threads);
    for (const struct dirent *each = readdir(threads); each != NULL; each = readdir(threads)) {
        count += each->d_name[0] != '.' ? 1 : 0;
    }
    closedir(threads);
    return count;
}

long helper_process_ticks(long pid)
{
    char path[64];
    char text[1024] = "";
    unsigned long user = 0;
    unsigned long system = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    const char *behind = strrchr(text, ')');
    assert_non_null(behind);
    assert_int_equal(sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    return (long)(user + system);
}

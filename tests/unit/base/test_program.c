/* Programs: what may be run, and where it is looked for. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/program.h"

/* first: a folder and a file that may not be run, of the name; second: a program of that name. */
typedef struct places {
    char folder[1024];
    char program[PATH_MAX];
    char *path; /* of the environment, as it was */
} places;

static void make_file(const char *path, mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    assert_true(file >= 0 && fchmod(file, mode) == 0 && close(file) == 0);
}

static int set_up(void **state)
{
    static places at;
    char path[PATH_MAX];
    snprintf(at.folder, sizeof at.folder, "%s/tfos-program-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(at.folder));
    static const char *const folders[] = {"first", "second", "first/thing"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", at.folder, folders[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    snprintf(path, sizeof path, "%s/first/other", at.folder);
    make_file(path, 0644);
    snprintf(at.program, sizeof at.program, "%s/second/thing", at.folder);
    make_file(at.program, 0755);
    at.path = getenv("PATH") != NULL ? strdup(getenv("PATH")) : NULL;
    *state = &at;
    return 0;
}

static int tear_down(void **state)
{
    places *at = *state;
    static const char *const names[] = {"second/thing", "first/other", "first/thing", "first", "second", "."};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", at->folder, names[i]);
        remove(strcmp(names[i], ".") == 0 ? at->folder : path);
    }
    setenv("PATH", at->path != NULL ? at->path : "", 1);
    free(at->path);
    return 0;
}

static void set_path(const places *at, const char *format)
{
    char path[8 * PATH_MAX] = "";
    char *to = path;
    for (const char *from = format; *from != '\0'; from++) { /* @ stands for the folder */
        to += *from == '@' ? snprintf(to, sizeof at->folder, "%s", at->folder) : snprintf(to, 2, "%c", *from);
    }
    setenv("PATH", path, 1);
}

static void test_folders_and_files_that_may_not_run_are_no_programs(void **state)
{
    const places *at = *state;
    char path[PATH_MAX];
    assert_true(tfos__program_is(at->program));
    snprintf(path, sizeof path, "%s/first/thing", at->folder);
    errno = 0;
    assert_false(tfos__program_is(path));
    assert_int_equal(errno, EACCES);
    snprintf(path, sizeof path, "%s/third", at->folder);
    assert_false(tfos__program_is(path));
    assert_int_equal(errno, ENOENT);
    snprintf(path, sizeof path, "%s/first/other", at->folder); /* not even root may run it */
    assert_false(tfos__program_is(path));
}

static void test_the_first_program_on_the_path_is_found(void **state)
{
    const places *at = *state;
    char found[PATH_MAX];
    char folder[PATH_MAX];
    set_path(at, "@/none:@/first:@/second:/bin");
    assert_true(tfos__program_find("thing", found, sizeof found));
    assert_string_equal(found, at->program);
    assert_false(tfos__program_find("none-of-them", found, sizeof found));
    assert_true(tfos__program_find(at->program, found, sizeof found)); /* a path is one */
    assert_string_equal(found, at->program);
    assert_false(tfos__program_find("second/thing", found, sizeof found));
    assert_false(tfos__program_find("thing", found, strlen(at->program))); /* no room for it */
    set_path(at, "");
    assert_false(tfos__program_find("thing", found, sizeof found));
    /* A folder without a name is the current one. */
    assert_non_null(getcwd(folder, sizeof folder));
    set_path(at, "@/first:");
    assert_false(tfos__program_find("thing", found, sizeof found));
    set_path(at, ":@/first");
    snprintf(found, sizeof found, "%s/second", at->folder);
    assert_int_equal(chdir(found), 0);
    assert_true(tfos__program_find("thing", found, sizeof found));
    assert_string_equal(found, "./thing");
    assert_int_equal(chdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders_and_files_that_may_not_run_are_no_programs),
        cmocka_unit_test(test_the_first_program_on_the_path_is_found),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

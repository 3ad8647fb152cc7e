/* Shards: files that appear together, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "record/shards.h"

enum { COUNT = 3, PATH_BYTES = 300 };

typedef struct place {
    char folder[PATH_BYTES / 2];
    char path[COUNT][PATH_BYTES];
    const char *paths[COUNT];
} place;

static void place_init(place *self)
{
    const char *folder = getenv("TMPDIR");
    snprintf(self->folder, sizeof self->folder, "%s/shards-XXXXXX", folder != NULL ? folder : "/tmp");
    assert_non_null(mkdtemp(self->folder));
    for (int i = 0; i < COUNT; i++) {
        snprintf(self->path[i], PATH_BYTES, "%s/%c", self->folder, 'a' + i);
        self->paths[i] = self->path[i];
    }
}

static void place_reset(place *self)
{
    for (int i = 0; i < COUNT; i++) {
        (void)unlink(self->path[i]);
    }
    assert_int_equal(rmdir(self->folder), 0);
}

static tfos__shards *open_with_records(const place *self, bool overwrite)
{
    tfos__shards *shards;
    tfos__shards_options options = {.text = true, .header = "h\n", .header_bytes = 2, .overwrite = overwrite};
    assert_int_equal(tfos__shards_open(self->paths, COUNT, &options, &shards, NULL), TFOS_OK);
    for (int i = 0; i < 2 * COUNT; i++) {
        char record[8];
        snprintf(record, sizeof record, "%d\n", i);
        assert_int_equal(tfos__shards_write(shards, record, 2, NULL), TFOS_OK);
    }
    return shards;
}

/* The text of a small file; "" for one that is not there. */
static const char *slurp(const char *path)
{
    static char text[64];
    text[0] = '\0';
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    return text;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void appear_together(void **state)
{
    (void)state;
    place self;
    place_init(&self);
    tfos__shards *shards = open_with_records(&self, false);
    /* Whole and on disk, but not there yet. */
    assert_int_equal(tfos__shards_sync(shards, NULL), TFOS_OK);
    assert_string_equal(slurp(self.path[0]), "");
    assert_int_equal(tfos__shards_records(shards), 2 * COUNT);
    assert_int_equal(tfos__shards_commit(shards, NULL), TFOS_OK);
    assert_string_equal(slurp(self.path[0]), "h\n0\n3\n");
    assert_string_equal(slurp(self.path[2]), "h\n2\n5\n");
    place_reset(&self);
}

static void leave_nothing_when_thrown_away(void **state)
{
    (void)state;
    place self;
    place_init(&self);
    tfos__shards_abort(open_with_records(&self, false));
    tfos__shards *shards = open_with_records(&self, false);
    assert_int_equal(tfos__shards_sync(shards, NULL), TFOS_OK);
    tfos__shards_abort(shards);
    assert_int_equal(rmdir(self.folder), 0);
}

/* A name is taken between opening and committing: those before it are given up again. */
static void leave_nothing_when_a_name_is_taken(void **state)
{
    (void)state;
    place self;
    tfos_error error;
    place_init(&self);
    tfos__shards *shards = open_with_records(&self, false);
    put(self.path[2], "mine");
    assert_int_equal(tfos__shards_commit(shards, &error), TFOS_EXISTS);
    assert_non_null(strstr(error.message, self.path[2]));
    assert_int_equal(access(self.path[0], F_OK), -1);
    assert_int_equal(access(self.path[1], F_OK), -1);
    assert_string_equal(slurp(self.path[2]), "mine");
    place_reset(&self);
}

/* What has replaced a file stays, as the old one is gone; what was new goes. */
static void keep_what_replaced_a_file(void **state)
{
    (void)state;
    place self;
    place_init(&self);
    put(self.path[0], "old");
    tfos__shards *shards = open_with_records(&self, true);
    assert_int_equal(mkdir(self.path[2], 0777), 0);
    assert_int_not_equal(tfos__shards_commit(shards, NULL), TFOS_OK);
    assert_string_equal(slurp(self.path[0]), "h\n0\n3\n");
    assert_int_equal(access(self.path[1], F_OK), -1);
    assert_int_equal(rmdir(self.path[2]), 0);
    place_reset(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appear_together),
        cmocka_unit_test(leave_nothing_when_thrown_away),
        cmocka_unit_test(leave_nothing_when_a_name_is_taken),
        cmocka_unit_test(keep_what_replaced_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

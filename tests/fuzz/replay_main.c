/* Runs a fuzz target over stored inputs, without libFuzzer: `replay_<format> FILE|FOLDER…`.
 *
 * Every input is copied to memory of exactly its size, so that a sanitizer sees a read past its end. No input at all is
 * a failure: a corpus that has gone missing must not look like one that passes. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_DEPTH = 8 };

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "replay: cannot %s %s: %s\n", what, path, strerror(errno));
    exit(1);
}

static void replay_file(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail("open", path);
    }
    uint8_t *data = malloc(bytes > 0 ? bytes : 1);
    if (data == NULL) {
        fail("get memory for", path);
    }
    if (fread(data, 1, bytes, file) != bytes) {
        fail("read", path);
    }
    fclose(file);
    /* Printed before the run, so that the last line before a crash names the input. */
    printf("%s (%zu bytes)\n", path, bytes);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
}

static size_t replay(const char *path, int depth)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        fail("find", path);
    }
    if (!S_ISDIR(info.st_mode)) {
        replay_file(path, (size_t)info.st_size);
        return 1;
    }
    if (depth == MAX_DEPTH) {
        fprintf(stderr, "replay: %s is nested more than %d folders deep\n", path, MAX_DEPTH);
        exit(1);
    }
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        fail("list", path);
    }
    size_t inputs = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            size_t bytes = strlen(path) + strlen(entries[i]->d_name) + 2;
            char *child = malloc(bytes);
            if (child == NULL) {
                fail("get memory for", path);
            }
            snprintf(child, bytes, "%s/%s", path, entries[i]->d_name);
            inputs += replay(child, depth + 1);
            free(child);
        }
        free(entries[i]);
    }
    free(entries);
    return inputs;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE|FOLDER…\n", argv[0]);
        return 2;
    }
    size_t inputs = 0;
    for (int i = 1; i < argc; i++) {
        inputs += replay(argv[i], 0);
    }
    printf("%zu inputs replayed\n", inputs);
    if (inputs == 0) {
        fprintf(stderr, "replay: no input found; is the corpus complete?\n");
        return 1;
    }
    return 0;
}

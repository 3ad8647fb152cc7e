/* Indexes: any bytes are refused, or every offset that they lead to is that of a record.
 *
 * A fuzzer cannot guess the checksum, so it is set right before the index is opened beside a file of a hundred records.
 * The first byte, if odd, leaves the checksum as it is. */
#include <fcntl.h>

#include "fuzz_tools.h"
#include "record/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { RECORDS = 100, HEAD_BYTES = 32 };

static char folder[256];
static char path[300];
static char index_path[320];
static int64_t starts[RECORDS + 1];

static void clean_up(void)
{
    unlink(index_path);
    unlink(path);
    rmdir(folder);
}

static void write_all(const char *name, const void *bytes, size_t count)
{
    int descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    require(descriptor >= 0 && write(descriptor, bytes, count) == (ssize_t)count, "a file cannot be written");
    close(descriptor);
}

static void make_data(void)
{
    const char *base = getenv("TMPDIR");
    tfos__buffer file = {0};
    uint8_t payload[64] = {0};
    snprintf(folder, sizeof folder, "%s/fuzz-index-XXXXXX", base != NULL ? base : "/tmp");
    require(mkdtemp(folder) != NULL, "no folder");
    snprintf(path, sizeof path, "%s/data", folder);
    snprintf(index_path, sizeof index_path, "%s%s", path, TFOS_INDEX_SUFFIX);
    for (int i = 0; i < RECORDS; i++) {
        starts[i] = (int64_t)file.size;
        append_record(&file, payload, (size_t)(i * 7 % 50));
    }
    starts[RECORDS] = (int64_t)file.size;
    write_all(path, file.data, file.size);
    tfos__buffer_reset(&file);
    atexit(clean_up);
}

static bool is_start(int64_t offset)
{
    for (int i = 0; i <= RECORDS; i++) {
        if (starts[i] == offset) {
            return true;
        }
    }
    return false;
}

static void check_offsets(void)
{
    tfos_index *index = NULL;
    tfos_error error = {0};
    int64_t offset;
    if (tfos_index_open(path, &index, &error) != TFOS_OK) {
        require(error.message[0] != '\0', "a failure without a message");
        return;
    }
    int64_t records = tfos_index_records(index);
    for (int64_t record = 0; record <= records && record < 3 * RECORDS; record++) {
        if (tfos_index_offset(index, record, &offset, &error) == TFOS_OK) {
            require(is_start(offset), "an offset where no record starts");
        }
    }
    tfos_index_free(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (folder[0] == '\0') {
        make_data();
    }
    if (bytes == 0) {
        return 0;
    }
    tfos__buffer index = {0};
    append(&index, data + 1, bytes - 1);
    if (index.size >= 4 && (data[0] & 1) == 0) {
        tfos__frame_put_footer(index.data + index.size - 4, index.data, index.size - 4);
    }
    tfos__index_head head;
    tfos_error error = {0};
    tfos_status status = tfos__index_parse(index.data, index.size, "index", &head, &error);
    if (status == TFOS_OK) {
        require(head.listed * 8 + HEAD_BYTES + 4 == index.size, "other offsets than there are");
        write_all(index_path, index.data, index.size);
        check_offsets();
        int64_t aligned = -1;
        for (int64_t offset = 0; offset < starts[RECORDS]; offset += 311) {
            require(tfos_records_align(path, offset, &aligned, NULL) == TFOS_OK, "a border cannot be aligned");
            require(aligned >= offset && is_start(aligned), "a border where no record starts");
        }
    } else {
        require(status == TFOS_CORRUPT && error.message[0] != '\0', "a failure without a message");
    }
    tfos__buffer_reset(&index);
    return 0;
}

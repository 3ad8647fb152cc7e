/* The file `checkpoint`: any bytes are refused with a message, or are names, the last of which is the newest. */
#include "fuzz_tools.h"
#include "tensorflow/checkpoints.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    tfos__checkpoints found = {.most = 4};
    tfos_error error = {0};
    if (tfos__checkpoints_parse(&found, (const char *)data, bytes, &error) != TFOS_OK) {
        require(error.status == TFOS_CORRUPT && error.message[0] != '\0', "a failure without a message");
    }
    for (size_t i = 0; i < found.count; i++) {
        require(found.at[i].name != NULL && tfos__checkpoints_has(&found, found.at[i].name), "a name that is lost");
    }
    tfos__checkpoints_close(&found);
    return 0;
}

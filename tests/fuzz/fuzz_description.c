/* assets.extra/tfos.json of a trainable model: any bytes are refused with a message, or describe ports that are found
 * by their names. */
#include "fuzz_tools.h"
#include "tensorflow/description.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    tfos__description about;
    tfos_error error = {0};
    if (tfos__description_parse((const char *)data, bytes, "tfos.json", &about, &error) != TFOS_OK) {
        require(error.status != TFOS_OK && error.message[0] != '\0', "a failure without a message");
        return 0;
    }
    for (size_t i = 0; i < about.port_count; i++) {
        require(about.ports[i].name != NULL && about.ports[i].key != NULL, "a port without a name");
        require(tfos__description_port(&about, about.ports[i].name) != NULL, "a port that is not found");
    }
    require(about.metrics_length >= 0, "metrics of no length");
    tfos__description_reset(&about);
    return 0;
}

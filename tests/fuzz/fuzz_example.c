/* tf.train.Example: see fuzz_messages.h. */
#include "fuzz_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    return check_messages(
        "{\"fields\": ["
        "{\"name\": \"i\", \"type\": \"int64\", \"nullable\": true}, {\"name\": \"f\", \"type\": \"float\", "
        "\"nullable\": "
        "true}, {\"name\": \"s\", \"type\": \"string\", \"nullable\": true}, {\"name\": \"b\", \"type\": \"bool\", "
        "\"nullable\": true}, {\"name\": \"is\", \"type\": \"int64\", \"shape\": [null], \"nullable\": true}, "
        "{\"name\": "
        "\"fs\", \"type\": \"float\", \"shape\": [null], \"nullable\": true}, {\"name\": \"ss\", \"type\": \"binary\", "
        "\"shape\": [null], \"nullable\": true}, {\"name\": \"i2\", \"type\": \"int32\", \"shape\": [2], \"nullable\": "
        "true}, {\"name\": \"f2\", \"type\": \"double\", \"shape\": [2], \"nullable\": true}, {\"name\": \"s2\", "
        "\"type\": "
        "\"string\", \"shape\": [2], \"nullable\": true}]}",
        data, bytes);
}

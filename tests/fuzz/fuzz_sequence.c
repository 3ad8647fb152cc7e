/* tf.train.SequenceExample: see fuzz_messages.h. */
#include "fuzz_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    return check_messages("{\"record\": \"sequence_example\", \"fields\": ["
                          "{\"name\": \"c\", \"type\": \"int64\", \"nullable\": true}, {\"name\": \"cs\", \"type\": "
                          "\"string\", \"shape\": "
                          "[null], \"nullable\": true}, {\"name\": \"i\", \"type\": \"int64\", \"nullable\": true, "
                          "\"feature_list\": true}, "
                          "{\"name\": \"f2\", \"type\": \"float\", \"shape\": [2], \"nullable\": true, "
                          "\"feature_list\": true}, {\"name\": "
                          "\"is\", \"type\": \"int32\", \"shape\": [null], \"nullable\": true, \"feature_list\": "
                          "true}, {\"name\": \"ss\", "
                          "\"type\": \"binary\", \"shape\": [null], \"nullable\": true, \"feature_list\": true}]}",
                          data, bytes);
}

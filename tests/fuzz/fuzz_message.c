/* Messages of the control plane: any bytes are refused with a message, or mean something that is written and read again
 * the same. */
#include "fuzz_tools.h"
#include "net/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    tfos__message message;
    tfos__message again;
    tfos_error error = {0};
    tfos__buffer frame = {0};
    tfos__buffer frame_again = {0};
    if (tfos__message_decode(data, bytes, &message, &error) != TFOS_OK) {
        require(error.status != TFOS_OK && error.message[0] != '\0', "a failure without a message");
        return 0;
    }
    require(tfos__message_encode(&message, &frame, NULL) == TFOS_OK, "a message cannot be written");
    require(tfos__message_decode(frame.data, frame.size, &again, NULL) == TFOS_OK, "what was written cannot be read");
    require(again.type == message.type && memcmp(again.present, message.present, sizeof again.present) == 0,
            "other fields than before");
    require(tfos__message_encode(&again, &frame_again, NULL) == TFOS_OK, "a message cannot be written");
    require(frame.size == frame_again.size && memcmp(frame.data, frame_again.data, frame.size) == 0,
            "what was written reads as something else");
    tfos__buffer_reset(&frame);
    tfos__buffer_reset(&frame_again);
    return 0;
}

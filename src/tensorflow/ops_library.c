/* libtfos_ops.so: what tf.load_op_library and TF_LoadLibrary take. TensorFlow collects the ops that are registered
 * while a library is being loaded, so they are registered by its constructor. A failure there cannot be returned:
 * whoever loads it looks whether the ops are there. */
#include <stdio.h>

#include "tensorflow/ops.h"

__attribute__((constructor)) static void register_ops(void)
{
    const tfos__tensorflow *tf;
    tfos_error error;
    if (tfos__tensorflow_load(NULL, &tf, &error) != TFOS_OK || tfos__ops_register(tf, &error) != TFOS_OK) {
        fprintf(stderr, "tfos: the ops are not available: %s\n", error.message);
    }
}

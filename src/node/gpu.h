/* The GPUs of a machine, from what nvidia-smi prints. */
#ifndef TFOS_NODE_GPU_H
#define TFOS_NODE_GPU_H

#include "tfos.h"

enum { TFOS__GPU_MOST = 128 };

typedef struct tfos__gpu {
    char index[16];
    char uuid[96]; /* empty if not known */
    bool taken;    /* another process computes on it, or we may not use it */
} tfos__gpu;

typedef struct tfos__gpus {
    tfos__gpu at[TFOS__GPU_MOST];
    size_t count;
} tfos__gpus;

/* Reads lines "0, GPU-5c1d…" (--query-gpu=index,uuid --format=csv,noheader). CORRUPT if a line is something else. */
tfos_status tfos__gpus_read_query(const char *text, tfos__gpus *out, tfos_error *error);

/* Reads lines "GPU 0: Tesla K80 (UUID: GPU-5c1d…)" (--list-gpus). */
tfos_status tfos__gpus_read_list(const char *text, tfos__gpus *out, tfos_error *error);

/* Marks those as taken whose UUIDs are lines of `text` (--query-compute-apps=gpu_uuid --format=csv,noheader). */
void tfos__gpus_mark_busy(tfos__gpus *gpus, const char *text);

/* Marks those as taken that CUDA_VISIBLE_DEVICES leaves out, by index or by UUID or its beginning. NULL: none. */
void tfos__gpus_restrict(tfos__gpus *gpus, const char *visible);

/* "0,2": those that are free. */
void tfos__gpus_free_list(const tfos__gpus *gpus, char *out, size_t bytes);

#endif

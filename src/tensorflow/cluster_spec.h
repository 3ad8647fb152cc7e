/* A cluster spec: the tasks of a TensorFlow cluster by job, and the address of each. What users write as JSON,
 *
 *   {"ps": ["host:port", …], "worker": ["host:port", …], "chief": ["host:port"]}
 *
 * and the environment variable TF_CONFIG, which holds such a cluster and says which of its tasks this process is. */
#ifndef TFOS_TENSORFLOW_CLUSTER_SPEC_H
#define TFOS_TENSORFLOW_CLUSTER_SPEC_H

#include "tfos.h"

enum {
    TFOS__CLUSTER_SPEC_MAX_BYTES = 16 << 20,
    TFOS__CLUSTER_SPEC_MAX_JOBS = 64,
    TFOS__CLUSTER_SPEC_MAX_TASKS = 65536, /* of all jobs together */
    TFOS__CLUSTER_SPEC_MAX_NAME_BYTES = 63,
    TFOS__CLUSTER_SPEC_MAX_HOST_BYTES = 253,
};

typedef struct tfos__cluster_job {
    const char *name;
    const char **addresses; /* "host:port", checked */
    size_t count;
} tfos__cluster_job;

typedef struct tfos__cluster_spec {
    tfos__cluster_job jobs[TFOS__CLUSTER_SPEC_MAX_JOBS]; /* by name, as TensorFlow orders them */
    size_t job_count;
    size_t task_count;
    struct json_object *json; /* holds the texts */
    const char **addresses;   /* those of all jobs, one job after the other */
} tfos__cluster_spec;

/* Parses and checks: INVALID says which job and task is wrong, LIMIT what there is too much of. An address names one
 * task only.
 *
 * Owner: the caller resets *out with tfos__cluster_spec_reset; after a failure there is nothing to reset.
 * Thread: any. */
tfos_status tfos__cluster_spec_init(tfos__cluster_spec *out, const char *text, size_t bytes, tfos_error *error);
void tfos__cluster_spec_reset(tfos__cluster_spec *spec);

/* The job called `job`, which has a task `task`. INVALID names those that there are. */
tfos_status tfos__cluster_spec_find(const tfos__cluster_spec *spec, const char *job, int64_t task,
                                    const tfos__cluster_job **out, tfos_error *error);

/* The port of an address that has been checked. */
int tfos__cluster_address_port(const char *address);

/* What TF_CONFIG says. All of it may be missing: then cluster.job_count is 0, job is "", task is -1. */
typedef struct tfos__cluster_config {
    tfos__cluster_spec cluster;
    char job[TFOS__CLUSTER_SPEC_MAX_NAME_BYTES + 1];
    int64_t task;
} tfos__cluster_config;

/* Owner: the caller resets out->cluster; after a failure there is nothing to reset.
 * Thread: any. */
tfos_status tfos__cluster_config_init(tfos__cluster_config *out, const char *text, size_t bytes, tfos_error *error);

#endif

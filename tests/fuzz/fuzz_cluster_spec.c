/* Cluster specs and TF_CONFIG: any text is refused with a message, or is a cluster whose every task has a ServerDef
 * that says the same. */
#include "base/wire.h"
#include "fuzz_tools.h"
#include "tensorflow/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_failure(const tfos_error *error)
{
    require(error->status != TFOS_OK && error->message[0] != '\0', "a failure without a message");
    require(tfos__utf8_valid_prefix(error->message, strlen(error->message)) == strlen(error->message),
            "a message that is no text");
}

/* The next field of a message, which must be `field` and hold bytes. */
static tfos__wire next_bytes(tfos__wire *wire, uint32_t field)
{
    uint32_t tag = 0;
    tfos__wire value = {0};
    require(tfos__wire_tag(wire, &tag) && tag == TFOS__WIRE_TAG(field, TFOS__WIRE_BYTES), "another field");
    require(tfos__wire_bytes(wire, &value), "a field that is cut");
    return value;
}

static bool is_text(tfos__wire value, const char *text)
{
    size_t count = strlen(text);
    return (size_t)(value.end - value.at) == count && memcmp(value.at, text, count) == 0;
}

static void check_job(tfos__wire message, const tfos__cluster_job *job)
{
    require(is_text(next_bytes(&message, 1), job->name), "another name");
    for (size_t i = 0; i < job->count; i++) {
        tfos__wire entry = next_bytes(&message, 2);
        uint32_t tag = 0;
        uint64_t index = 0;
        require(tfos__wire_tag(&entry, &tag) && tag == TFOS__WIRE_TAG(1, TFOS__WIRE_VARINT), "no index");
        require(tfos__wire_varint(&entry, &index) && index == i, "another index");
        require(is_text(next_bytes(&entry, 2), job->addresses[i]), "another address");
        require(entry.at == entry.end, "more in an entry");
        int port = tfos__cluster_address_port(job->addresses[i]);
        require(port >= 1 && port <= 65535, "no port");
    }
    require(message.at == message.end, "more in a job");
}

static void check_spec(const tfos__cluster_spec *spec)
{
    tfos__buffer buffer = {0};
    for (size_t i = 0; i < spec->job_count; i++) {
        const tfos__cluster_job *own = &spec->jobs[i];
        buffer.size = 0;
        require(tfos__server_encode(spec, own->name, (int64_t)own->count - 1, 7, &buffer, NULL) == TFOS_OK,
                "no message");
        tfos__wire message = {.at = buffer.data, .end = buffer.data + buffer.size};
        tfos__wire cluster = next_bytes(&message, 1);
        for (size_t k = 0; k < spec->job_count; k++) {
            check_job(next_bytes(&cluster, 1), &spec->jobs[k]);
        }
        require(cluster.at == cluster.end, "more in the cluster");
        require(is_text(next_bytes(&message, 2), own->name), "another job");
    }
    tfos__buffer_reset(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    tfos__cluster_spec spec;
    tfos__cluster_config config;
    tfos_error error = {0};
    if (tfos__cluster_spec_init(&spec, (const char *)data, bytes, &error) == TFOS_OK) {
        check_spec(&spec);
        tfos__cluster_spec_reset(&spec);
    } else {
        check_failure(&error);
    }
    if (tfos__cluster_config_init(&config, (const char *)data, bytes, &error) == TFOS_OK) {
        check_spec(&config.cluster);
        tfos__cluster_spec_reset(&config.cluster);
    } else {
        check_failure(&error);
    }
    return 0;
}

"""Makes tensorflow/server_def.json: tasks of clusters, and the ServerDef of each as TensorFlow's protobuf writes it.

The order of a protobuf map is up to the writer, so each message is put together from its parts: jobs by name, their
tasks by index. Run it again after a change: python tests/vectors/make_server_defs.py
"""

import base64
import json
import os

from tensorflow.core.protobuf import cluster_pb2, config_pb2, tensorflow_server_pb2

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensorflow", "server_def.json")
SMALL = {"ps": ["a:1"], "worker": ["b.example.org:2222", "[::1]:65535"], "chief": ["10.0.0.1:80"]}
LARGE = {
    "worker": [f"node-{i:05d}.cluster.internal:{20000 + i}" for i in range(300)],
    "ps": ["h" * 200 + ".org:1"],
}
TASKS = [
    (SMALL, "ps", 0, 0),
    (SMALL, "worker", 1, 0),
    (SMALL, "chief", 0, 3),
    (LARGE, "worker", 0, 300),
    (LARGE, "worker", 299, 127),
]


def job_message(name, addresses):
    """The bytes of messages one behind the other are the bytes of the merged message."""
    parts = [cluster_pb2.JobDef(name=name)]
    parts += [cluster_pb2.JobDef(tasks={index: address}) for index, address in enumerate(addresses)]
    return b"".join(part.SerializeToString() for part in parts)


def length_before(number, payload):
    size, length = len(payload), b""
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def message_of(cluster, job, task, threads):
    jobs = b"".join(length_before(1, job_message(name, cluster[name])) for name in sorted(cluster))
    rest = tensorflow_server_pb2.ServerDef(job_name=job, task_index=task, protocol="grpc")
    if threads:
        rest.default_session_config.CopyFrom(config_pb2.ConfigProto(inter_op_parallelism_threads=threads))
    return length_before(1, jobs) + rest.SerializeToString()


def main():
    vectors = [
        {
            "cluster": cluster,
            "job": job,
            "task": task,
            "inter_op_threads": threads,
            "message": base64.b64encode(message_of(cluster, job, task, threads)).decode(),
        }
        for cluster, job, task, threads in TASKS
    ]
    with open(PATH, "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n")


if __name__ == "__main__":
    main()

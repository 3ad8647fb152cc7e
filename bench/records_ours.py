"""One work of the records section through tensorflowonspark.records, as users call it.

    records_ours.py parse|infer PATH THREADS PASSES
    records_ours.py write|write-numpy PATH THREADS PASSES OUT

Prints the line of JSON that records_bench.c prints. The schema is known, and what is to be written is in memory, before
the clock starts.
"""

import json
import re
import sys
import time

from tensorflowonspark import records


def peak_bytes():
    """The most memory that this process has held; getrusage would begin with that of the parent."""
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s*(\d+) kB", file.read())[1]) * 1024


def parse(path, threads, schema):
    """Every column as arrays over the memory of the batch: numbers as they are, strings as bytes and offsets."""
    strings = [field.name for field in schema.fields if field.type == "string"]
    numbers = [field.name for field in schema.fields if field.type != "string"]
    with records.read(path, schema=schema, threads=threads) as reader:
        for batch in reader:
            arrays = [batch[name] for name in numbers]
            arrays += [(batch.values(name), batch.offsets(name)) for name in strings]
        progress = reader.progress
    return {"records": progress.records, "memory_bytes": progress.memory_bytes}


def infer(path, threads):
    records.schema(path, threads=threads)
    return {}


def write(data, out):
    return {"records": records.write(out, data, overwrite=True)}


def arrow_table(path, schema):
    import pyarrow

    return pyarrow.RecordBatchReader.from_stream(records.read(path, schema=schema)).read_all()


def numpy_columns(path, schema):
    """A dict of NumPy arrays; strings are a list of str."""
    table = arrow_table(path, schema)
    columns = {}
    for field in schema.fields:
        column = table[field.name].combine_chunks()
        if field.type == "string":
            columns[field.name] = column.to_pylist()
        elif field.shape:
            columns[field.name] = column.flatten().to_numpy().reshape(len(column), -1)
        else:
            columns[field.name] = column.to_numpy()
    return columns


def main(work, path, threads, passes, out=None):
    threads, schema = int(threads), records.schema(path)
    if work == "parse":
        once = lambda: parse(path, threads, schema)
    elif work == "infer":
        once = lambda: infer(path, threads)
    else:
        data = arrow_table(path, schema) if work == "write" else numpy_columns(path, schema)
        once = lambda: write(data, out)
    result = {"peak_before_bytes": peak_bytes()}
    seconds = []
    for _ in range(int(passes)):
        start = time.perf_counter()
        result.update(once())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({**result, "seconds": seconds, "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])

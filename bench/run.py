"""Measures tfos and its peers on the same work, in the same run.

    bench/run.py [SECTION…] [--quick] [--save]

Prints one table per section and the machine it ran on; progress goes to stderr. A slow result is a result: the exit
status is non-zero only if something could not be measured.
"""

import argparse
import os
import sys

import cluster
import collective
import feed
import on_tensorflow
import records
import spark_records
import table

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "benchmarks.md")

# Each section is a module with measure(root, build, quick, say), which returns a table.Section.
SECTIONS = {
    "records": records,
    "spark-records": spark_records,
    "cluster": cluster,
    "feed": feed,
    "collective": collective,
    "tensorflow": on_tensorflow,
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="*", help=f"of {', '.join(SECTIONS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="tiny data, one repetition: whether it works at all")
    parser.add_argument("--save", action="store_true", help="write the table into docs/benchmarks.md")
    parser.add_argument("--build", default="build/release", help="where libtfos was built, below the root")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.section if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if arguments.quick and arguments.save:
        parser.error("figures of a quick run are too rough to save; leave out --quick")
    return arguments


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    arguments = parse_arguments()
    machine = table.machine()
    for name in arguments.section or SECTIONS:
        try:
            section = SECTIONS[name].measure(ROOT, os.path.join(ROOT, arguments.build), arguments.quick, say)
        except (OSError, RuntimeError) as error:
            sys.exit(f"bench: section {name} could not be measured: {error}")
        print(table.as_text(section), end="\n\n", flush=True)
        if arguments.save:
            table.save(PAGE, section, machine)
    print(machine)


if __name__ == "__main__":
    main()

"""Runs every suite of tests and adds up their counts.

A suite is a list of commands, the last of which runs tests and leaves reports. Suites run on tracks, side by side: one
for those in C, one for each of those in Python, which wait half of their time. What is on no track of its own is taken
by the tracks that have come to their end. Output is shown as it comes, with the suite in front. A suite that fails does
not stop the others. The slowest tests and what failed are shown at the end. The last line printed is "N passed, N
failed" over all suites; the exit status is 0 only if nothing failed. A suite that breaks before it can count, or that
runs no test at all, counts as one failure.

    scripts/test [--all] [SUITE…]
"""

import argparse
import collections
import contextlib
import dataclasses
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REPORTS = os.path.join(ROOT, "build", "reports")
JOBS = str(os.cpu_count() or 2)
STEP_LIMIT_S = 45 * 60  # of the suites of `make test`: a step that hangs is ended, and says where
CHECKED = ["-DTFOS_TESTS=ON", "-DTFOS_WERROR=ON"]
ENVIRONMENT = {
    "PYTHONPYCACHEPREFIX": os.path.join(ROOT, "build", "pycache"),
    "HYPOTHESIS_STORAGE_DIRECTORY": os.path.join(ROOT, "build", "hypothesis"),
    "TMPDIR": os.path.join(ROOT, "build", "tmp"),
    "KERAS_HOME": os.path.join(ROOT, "build", "keras"),
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
# Python compiles what it imports into the folder above, once. If it may not, every process does so for itself: three
# quarters of the time that `import tensorflow` takes.
UNWANTED = {"PYTHONDONTWRITEBYTECODE"}
SLOWEST = 10
FAILURES = 10  # of a suite, that are shown at the end
FAILURE_LENGTH = 300
ANY = "any"


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


@dataclasses.dataclass
class Suite:
    name: str
    steps: list  # commands, run until one fails
    report: str  # glob of the JUnit files or the text that the last step leaves
    count: object  # a function from the path of a report to a Count
    in_default: bool = True
    track: str = ""  # one suite of each runs at a time; those of ANY are for tracks with nothing left
    alone: bool = False  # nothing runs beside it


def count_junit(path):
    """Counts the cases of a JUnit file as pytest and Surefire write it."""
    count = Count()
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif case.find("skipped") is not None:
            count.skipped += 1
        else:
            count.passed += 1
    return count


def count_ctest(path):
    """Counts the tests inside the programs that ctest ran.

    A cmocka program says how many of its tests passed and failed. One that says nothing (a replay) or died is one test.
    """
    total = Count()
    for case in ElementTree.parse(path).iter("testcase"):
        output = case.findtext("system-out") or ""
        count = Count(
            passed=sum(map(int, re.findall(r"^\[  PASSED  \] (\d+) test", output, re.M))),
            failed=sum(map(int, re.findall(r"^\[  FAILED  \] (\d+) test", output, re.M))),
            skipped=sum(map(int, re.findall(r"^\[  SKIPPED \] (\d+) test", output, re.M))),
        )
        succeeded = case.get("status") == "run"
        if not succeeded and count.failed == 0:
            count.failed = 1
        if succeeded and count.passed + count.failed + count.skipped == 0:
            count.passed = 1
        total += count
    return total


def count_last_line(path):
    """Counts by the last line of a text, "N passed, N failed"."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")
    for line in reversed(lines):
        match = re.fullmatch(r"(\d+) passed, (\d+) failed", line.strip())
        if match:
            return Count(int(match[1]), int(match[2]))
    raise ValueError(f"{path} has no line 'N passed, N failed'")


def ctest_suite(name, kind, label=None, in_default=True, options=()):
    report = os.path.join(REPORTS, f"{name}.xml")
    run = ["ctest", "--test-dir", f"build/{kind}", "-j", JOBS, "--output-on-failure", "--output-junit", report]
    run += ["--test-output-size-passed", "1000000", "--test-output-size-failed", "1000000"]
    build = ["scripts/build", kind, *CHECKED, *options]
    if label:
        run += ["-L", label]
        build = ["env", f"TARGET=tests_{label}", *build]
    return Suite(name, [build, run], report, count_ctest, in_default)


def pytest_suite(name, environment, setup=(), in_default=True, tests=("tests/python",), variables=(), track="feed"):
    report = os.path.join(REPORTS, f"{name}.xml")
    run = ["env", *variables, f"{environment}/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for pattern in tests:
        run += sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, pattern)))
    run += [f"--junitxml={report}", f"--basetemp=build/tmp/{name}"]
    steps = [*setup, ["scripts/spark-archive", environment], ["scripts/build-python", environment], run]
    return Suite(name, steps, report, count_junit, in_default, track)


def has_spark(path):
    """Whether the tests of a file have Spark applications in the process that runs them."""
    with open(path, encoding="utf-8") as file:
        return re.search(r"^(import|from) spark_tools\b", file.read(), re.MULTILINE) is not None


def python_suites():
    """What runs on Spark, and what does not; of both, what belongs together and takes minutes is a suite of its own."""
    paths = sorted(glob.glob(os.path.join(ROOT, "tests", "python", "test_*.py")))

    def named(*names):
        return [path for path in paths if os.path.basename(path).startswith(tuple(f"test_{name}" for name in names))]

    on_spark = [path for path in paths if has_spark(path)]
    parts = {
        "docs": ("python", named("docs")),
        "feed": ("feed", [path for path in named("feed") if path in on_spark]),
        "pipeline": (ANY, named("pipeline", "table")),
        "model": (ANY, named("train", "infer", "native")),
        "keras": (ANY, named("keras")),
    }
    rest = [path for path in paths if not any(path in tests for _, tests in parts.values())]
    parts["cluster"] = ("cluster", [path for path in rest if path in on_spark])
    named_suites = [(f"python-{name}", *part) for name, part in parts.items()]
    named_suites.append(("python", "python", [path for path in rest if path not in on_spark]))
    return [pytest_suite(name, ".venv", tests=tests, track=track) for name, track, tests in named_suites]


def text_suite(name, steps, in_default=True, alone=False):
    """A suite whose last step prints "N passed, N failed" itself."""
    return Suite(name, steps, os.path.join(REPORTS, f"{name}.txt"), count_last_line, in_default, alone=alone)


# What may differ between the lines of Spark.
ON_SPARK = tuple(f"tests/python/test_{name}*.py" for name in ("cluster", "feed", "pipeline", "table"))


# What knows of Keras's own inside, which differs between its versions: tests that take long are for each of them, too.
ON_KERAS = ("tests/python/test_keras.py", "tests/python/test_native.py")


# Where the libraries of a program can be those with sanitizers.
ON_LANES = ("tests/python/test_feed_dataset.py",)


# What several suites are made from, each list beside the others; when it is there, their own steps find nothing to do.
PREPARATION = [
    [["scripts/build", "release", *CHECKED, "-DTFOS_JVM=ON"], ["scripts/build-python", ".venv"]],
    [["scripts/spark-archive", ".venv"]],
]

_output = threading.Lock()


def all_suites():
    sanitized = [["scripts/build", "asan", *CHECKED]]
    release = ["scripts/build", "release", *CHECKED, "-DTFOS_JVM=ON"]
    maven = [release, ["scripts/maven", "test"]]
    oldest = [["scripts/setup-python", "build/venv-oldest", "requirements-oldest.txt", "11", "12"]]
    spark35 = [["scripts/setup-python", "build/venv-spark35", "requirements-spark35.txt", "11", "11"]]
    fuzz_seconds = os.environ.get("FUZZ_SECONDS", "600")
    only_long = ["TFOS_TEST_LONG=only"]
    storms = ["TFOS_TEST_LONG=all", f"TFOS_STORMS={os.environ.get('TFOS_STORMS', '20')}"]
    storm_test = ("tests/python/test_feed_storm.py",)
    return [
        ctest_suite("c", "release", options=["-DTFOS_JVM=ON"]),
        text_suite("tidy", [release, [sys.executable, "tests/tidy/tidy.py"]]),
        ctest_suite("c-asan", "asan"),
        ctest_suite("c-tsan", "tsan", label="threads"),
        *python_suites(),
        Suite("java", maven, "build/jvm/surefire-reports/TEST-*.xml", count_junit, track="feed"),
        # The rest of the matrix, for --all: one line for each further version of TensorFlow or Spark.
        ctest_suite("c-tsan-all", "tsan", in_default=False),
        pytest_suite("python-long", ".venv", in_default=False, variables=only_long),
        pytest_suite("python-oldest-tensorflow", "build/venv-oldest", oldest, False, track="cluster"),
        pytest_suite("python-oldest-keras", "build/venv-oldest", oldest, False, ON_KERAS, only_long, track="cluster"),
        pytest_suite("python-spark35", "build/venv-spark35", spark35, False, ON_SPARK, ["TFOS_TEST_LONG=all"]),
        pytest_suite("python-storms", ".venv", in_default=False, tests=storm_test, variables=storms),
        pytest_suite("python-asan", ".venv", sanitized, False, ON_LANES, ["TFOS_TEST_SANITIZED=build/asan/src"]),
        text_suite("fuzz", [["scripts/fuzz", fuzz_seconds]], in_default=False, alone=True),
    ]


def show(name, text):
    with _output:
        sys.stdout.write("".join(f"{name}| {line}\n" for line in text.splitlines() or [""]))
        sys.stdout.flush()


def abort(name, process, limit_s):
    """Ends a process so that Python shows the stacks of its threads."""
    show(name, f"not done after {limit_s} s")
    process.send_signal(signal.SIGABRT)


def run_step(name, command, log, limit_s):
    """Runs a command, shows its output as it comes and keeps it in a file. Returns whether it succeeded."""
    show(name, "$ " + " ".join(command))
    variables = {**os.environ, **ENVIRONMENT}
    try:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={name: value for name, value in variables.items() if name not in UNWANTED},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        show(name, f"cannot start {command[0]}: {error.strerror}")
        return False
    watch = threading.Timer(limit_s, abort, [name, process, limit_s])
    watch.start()
    try:
        with open(log, "ab") as file, process:
            for line in process.stdout:
                show(name, line.decode(errors="replace"))
                file.write(line)
    finally:
        watch.cancel()
    return process.returncode == 0


def remove_reports(suite):
    for path in glob.glob(os.path.join(ROOT, suite.report)):
        os.remove(path)


def run_suite(suite):
    remove_reports(suite)
    log = os.path.join(REPORTS, f"{suite.name}.txt")
    open(log, "wb").close()
    limit_s = STEP_LIMIT_S if suite.in_default else threading.TIMEOUT_MAX
    succeeded = all(run_step(suite.name, step, log, limit_s) for step in suite.steps)
    count = Count()
    try:
        for path in glob.glob(os.path.join(ROOT, suite.report)):
            count += suite.count(path)
    except (ValueError, ElementTree.ParseError) as error:
        show(suite.name, f"cannot read the report: {error}")
        succeeded = False
    if not succeeded and count.failed == 0:
        show(suite.name, f"broke before it could count; counted as 1 failed. Its output is in {log}")
        count.failed += 1
    elif count.passed + count.failed == 0:
        show(suite.name, "ran no test at all; counted as 1 failed")
        count.failed += 1
    return count


def choose_suites(arguments):
    suites = all_suites()
    unknown = set(arguments.suite) - {suite.name for suite in suites}
    if unknown:
        sys.exit(f"unknown suite {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in suites)}")
    if arguments.suite:
        return [suite for suite in suites if suite.name in arguments.suite]
    return [suite for suite in suites if suite.in_default or arguments.all]


def each_of(suites, waiting):
    """The suites of a track, then those that are left of what is for any."""
    yield from suites
    with contextlib.suppress(IndexError):
        while True:
            yield waiting.popleft()


def run_track(suites, results):
    for suite in suites:
        start = time.monotonic()
        count = run_suite(suite)
        results.append((suite, count, time.monotonic() - start))


def prepare(steps, log):
    if not all(run_step("preparation", step, log, STEP_LIMIT_S) for step in steps):
        show("preparation", "failed; the suites try it for themselves, and fail")


def run_side_by_side(work, calls):
    threads = [threading.Thread(target=work, args=arguments) for arguments in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_all(suites):
    """The tracks side by side, then those that need the machine for themselves."""
    results = []
    beside = [suite for suite in suites if not suite.alone]
    waiting = collections.deque(suite for suite in beside if suite.track == ANY)
    names = dict.fromkeys(suite.track for suite in beside if suite.track != ANY) or [ANY]
    tracks = [each_of([suite for suite in beside if suite.track == name != ANY], waiting) for name in names]
    if len(beside) > 1:
        log = os.path.join(REPORTS, "preparation.txt")
        open(log, "wb").close()
        run_side_by_side(prepare, [(steps, log) for steps in PREPARATION])
    run_side_by_side(run_track, [(track, results) for track in tracks])
    run_track([suite for suite in suites if suite.alone], results)
    return sorted(results, key=lambda result: suites.index(result[0]))


def times_of(suite):
    """(seconds, name) of what the JUnit files of a suite time: a test, or a program of tests in C."""
    for path in glob.glob(os.path.join(ROOT, suite.report)):
        with contextlib.suppress(ElementTree.ParseError):
            for case in ElementTree.parse(path).iter("testcase"):
                module = case.get("classname", "").rpartition(".")[2]
                yield float(case.get("time", 0)), f"{suite.name}: {module} {case.get('name')}"


def print_slowest(results):
    times = [each for suite, _, _ in results if suite.report.endswith(".xml") for each in times_of(suite)]
    print(f"\nThe {SLOWEST} slowest tests:")
    for seconds, name in sorted(times, reverse=True)[:SLOWEST]:
        print(f"{seconds:6.1f} s   {name}")


def failures_of(suite):
    """(name, where and what) of each test that failed, by the JUnit files of a suite."""
    for path in glob.glob(os.path.join(ROOT, suite.report)):
        with contextlib.suppress(ElementTree.ParseError):
            for case in ElementTree.parse(path).iter("testcase"):
                name = f"{case.get('classname', '').rpartition('.')[2]} {case.get('name')}"
                in_program = re.findall(r"^\[  FAILED  \] (?!\d+ test)(\S+)", case.findtext("system-out") or "", re.M)
                yield from ((f"{name} {test}", "") for test in dict.fromkeys(in_program))
                problems = [] if in_program else [*case.iter("failure"), *case.iter("error")]
                for problem in problems:
                    where = (problem.text or "").strip().rpartition("\n")[2]
                    yield name, f"{where}: {(problem.get('message') or '').partition(chr(10))[0]}"


def print_failures(results):
    """What failed, in few lines: the end of a record is often all that is kept of it."""
    for suite, count, _ in results:
        found = list(failures_of(suite)) if count.failed and suite.report.endswith(".xml") else []
        for name, what in found[:FAILURES]:
            print(f"failed: {suite.name}: {name} {what}"[:FAILURE_LENGTH].rstrip())
        if count.failed > len(found[:FAILURES]):
            print(f"failed: {suite.name}: {count.failed} in all, see {os.path.join(REPORTS, suite.name)}.txt")


def print_summary(results):
    print()
    for suite, count, seconds in results:
        skipped = f", {count.skipped} skipped" if count.skipped else ""
        mark = "ok    " if count.failed == 0 else "FAILED"
        print(f"{mark} {suite.name:26} {seconds:6.1f} s   {count.passed} passed, {count.failed} failed{skipped}")
    print_failures(results)
    total = sum((count for _, count, _ in results), Count())
    with open(os.path.join(REPORTS, "total.txt"), "w", encoding="utf-8") as file:
        print(f"{total.passed} passed, {total.failed} failed", file=file)
    print(f"{total.passed} passed, {total.failed} failed", flush=True)
    return total.failed == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the whole matrix, and long fuzzing")
    parser.add_argument("suite", nargs="*", help="only these suites")
    suites = choose_suites(parser.parse_args())
    os.makedirs(REPORTS, exist_ok=True)
    shutil.rmtree(ENVIRONMENT["TMPDIR"], ignore_errors=True)
    os.makedirs(ENVIRONMENT["TMPDIR"])
    results = run_all(suites)
    print_slowest(results)
    sys.exit(0 if print_summary(results) else 1)


if __name__ == "__main__":
    main()

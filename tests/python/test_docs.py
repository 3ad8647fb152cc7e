"""The README and the guides tell the truth: every block of commands and of code in them is run, in order."""

import contextlib
import csv
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec

import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUIDES = ["records", "data", "table", "cluster", "feed", "train", "pipeline", "infer", "native", "jvm"]
GUIDES += ["runner", "ps", "status"]
PAGES = ["README.md", *(f"docs/{name}.md" for name in GUIDES)]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 240  # for a command: less than a test has, so that what hangs can be shown
SCALAC = "scala.tools.nsc.Main"  # comes with Spark
CHECK_SCHEMA = "import sys, tensorflowonspark.records as r; r.Schema(sys.argv[1])"
C_FRAME = "#include <stdio.h>\n#include <tfos.h>\nint main(void)\n{\n%s\nreturn status == TFOS_END ? 0 : 1;\n}\n"


def text_of(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def environment():
    found = dict(os.environ)
    found["PATH"] = os.path.dirname(sys.executable) + os.pathsep + found["PATH"]
    found["JDK_JAVA_OPTIONS"] = processes.JAVA_OPTIONS
    return found


def write_digits(folder):
    """The file that the pages call digits.csv: a column for each pixel, then the digit."""
    with open(folder / "digits.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([(row * 7 + pixel) % 256 for pixel in range(784)] + [row % 10] for row in range(200))


def run(arguments, folder, text=None):
    """Runs a command to its end, in a session of its own, of which nothing is left. Returns what it prints."""
    pipe = subprocess.PIPE
    streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True}
    process = subprocess.Popen(arguments, cwd=folder, env=environment(), start_new_session=True, **streams)
    with process:
        try:
            output, errors = process.communicate(text, timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            told = [stream and stream.decode(errors="replace") for stream in (error.stdout, error.stderr)]
            pytest.fail(f"{arguments}: not done after {SECONDS} s\n{told}\n{text}\n{processes.report()}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"{arguments}\n{output}\n{errors}"
    return output


class Session:
    """A process that runs the blocks of Python of a page, see page_session.py."""

    def __init__(self, folder):
        command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_session.py")]
        self.told = open(folder / "told", "w+")
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.told, "text": True}
        self.process = subprocess.Popen(command, cwd=folder, env=environment(), start_new_session=True, **streams)

    def run(self, text):
        print(json.dumps(text), file=self.process.stdin, flush=True)
        ready = select.select([self.process.stdout], [], [], SECONDS)[0]
        answer = self.process.stdout.readline() if ready else f"not done after {SECONDS} s\n{processes.report()}"
        if answer != "null\n":
            os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(ValueError):
                answer = json.loads(answer)
            pytest.fail(f"{answer}\n{self.output()}\n{text}")

    def output(self):
        self.told.seek(0)
        return self.told.read()

    def close(self):
        """Ends it as programs end, if none has failed; nothing is left of it whatever happens."""
        try:
            self.process.communicate(timeout=SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            with self.told:
                output = self.output()
        assert self.process.returncode == 0, output


def output_of(arguments):
    return subprocess.run(arguments, env=environment(), capture_output=True, text=True, check=True).stdout


def run_shell(text, folder):
    # `make test` cannot run itself; that the targets exist can be checked, and the demo has a test of its own.
    commands = []
    for line in text.splitlines():
        if line.startswith("make "):
            run(["make", "--dry-run", *line.split()[1:]], ROOT)
        else:
            commands.append(line)
    run(["bash", "-e"], folder, "\n".join(commands))


def run_c(text, folder):
    (folder / "page.c").write_text(C_FRAME % text)
    package = output_of([sys.executable, "-c", "import tensorflowonspark as t; print(t.__path__[0])"]).strip()
    library = os.path.join(package, "libtfos.so")
    run(["cc", f"-I{ROOT}/include", "page.c", library, f"-Wl,-rpath,{package}", "-o", "page"], folder)
    run(["./page"], folder)


def run_java(text, folder):
    """An application of Spark's, with our jar."""
    [name] = re.findall(r"^public class (\w+)", text, re.MULTILINE)
    run_application(name, "java", text, folder, "javac", "-proc:none")


def run_scala(text, folder):
    [name] = re.findall(r"^object (\w+)", text, re.MULTILINE)
    run_application(name, "scala", text, folder, "java", SCALAC, "-usejavacp")


def run_application(name, language, text, folder, program, *options):
    (folder / f"{name}.{language}").write_text(text)
    package, spark = (os.path.dirname(find_spec(each).origin) for each in ("tensorflowonspark", "pyspark"))
    jar = f"{package}/jars/tfos.jar"
    java = output_of([f"{ROOT}/scripts/find-java"]).strip()
    classes = f"{name}-classes"
    (folder / classes).mkdir()
    places = ["-cp", f"{jar}:{spark}/jars/*"]
    run([f"{java}/bin/{program}", *places, *options, "-d", classes, f"{name}.{language}"], folder)
    run([f"{java}/bin/jar", "cf", "application.jar", "-C", classes, "."], folder)
    submit = [f"{spark}/bin/spark-submit", "--master", "local[2]", "--jars", jar, "--conf", "spark.ui.enabled=false"]
    run([*submit, "--class", name, "application.jar"], folder)


RUNNERS = {
    "sh": run_shell,
    "json": lambda text, folder: run([sys.executable, "-c", CHECK_SCHEMA, text], folder),
    "c": run_c,
    "java": run_java,
    "scala": run_scala,
}


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path):
    blocks = BLOCK.findall(text_of(page))
    assert blocks, f"{page} has no block to run"
    write_digits(tmp_path)
    with contextlib.closing(Session(tmp_path)) as session:
        runners = RUNNERS | {"python": lambda text, folder: session.run(text)}
        for language, text in blocks:
            assert language in runners, f"{page}: nobody knows how to run a block of {language}"
            runners[language](text, tmp_path)


def test_every_page_is_run():
    pages = [f"docs/{name}" for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")]
    assert {page for page in pages if BLOCK.search(text_of(page))} <= set(PAGES)


def test_modules_of_the_release():
    """What programs of TensorFlowOnSpark import."""
    names = ["TFCluster", "TFNode", "TFParallel", "TFSparkNode", "compat", "dfutil", "gpu_info", "pipeline", "util"]
    assert [name for name in names if not find_spec(f"tensorflowonspark.{name}")] == []


def test_demo():
    assert shutil.which("bash")
    said = run(["bash", "scripts/demo"], ROOT)
    whole_story = said[said.index("without Python on the executors") :]
    labels = re.findall(r"^ *Label: (\d), Prediction: (\d)$", whole_story, re.MULTILINE)
    assert len(labels) == 8 and sum(label == prediction for label, prediction in labels) >= 6, said
    (accuracy,) = re.findall(
        r"^ *Accuracy on \d+ digits that were not trained on: ([0-9.]+)%$", whole_story, re.MULTILINE
    )
    assert float(accuracy) > 93, said


def test_page_of_settings_is_current():
    table = output_of(["tfos", "config", "--markdown"])
    assert text_of("docs/config.md") == table, "make it anew: tfos config --markdown >docs/config.md"

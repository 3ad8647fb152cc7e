"""scripts/test: which suite a file of tests belongs to, what the processes of a suite are given, what is shown at the
end."""

import glob
import importlib.util
import os
import sys
import threading

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("runner", os.path.join(ROOT, "scripts", "test.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["runner"] = module  # where its classes look for themselves
    spec.loader.exec_module(module)
    yield module
    del sys.modules["runner"]


def test_every_file_is_run_once(runner):
    ran = [word for suite in runner.python_suites() for word in suite.steps[-1] if word.startswith("tests/python/")]
    files = [os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "tests", "python", "test_*.py"))]
    assert sorted(ran) == sorted(files)


def test_suites_on_spark_are_those_with_applications_of_spark(runner):
    suites = {suite.name: suite for suite in runner.python_suites()}
    assert "tests/python/test_rows.py" in suites["python"].steps[-1]
    assert "tests/python/test_cluster.py" in suites["python-cluster"].steps[-1]
    assert "tests/python/test_feed_hunger.py" in suites["python-feed"].steps[-1]
    assert "tests/python/test_docs.py" in suites["python-docs"].steps[-1]
    assert len({suite.track for suite in suites.values()} - {runner.ANY}) == 3


def test_suites_are_run_once_each_and_those_of_any_track_by_the_first_that_is_free(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "REPORTS", str(tmp_path))
    monkeypatch.setattr(runner, "prepare", lambda steps, log: None)
    monkeypatch.setattr(runner, "run_suite", lambda suite: threads.append(threading.get_ident()) or runner.Count(1))
    tracks = ["", "one", runner.ANY, "one", "", runner.ANY, runner.ANY]
    suites = [runner.Suite(str(i), [], "", None, True, track) for i, track in enumerate(tracks)]
    suites.append(runner.Suite("7", [], "", None, True, alone=True))
    for chosen in (suites, suites[2:3], suites[7:]):
        threads = []
        assert [suite.name for suite, _, _ in runner.run_all(chosen)] == [suite.name for suite in chosen]
        assert len(threads) == len(chosen)


def test_what_python_compiles_is_kept(runner, tmp_path, monkeypatch):
    """Whatever the environment says: else each process that imports TensorFlow compiles it."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    log = tmp_path / "log"
    look = "import sys; print(sys.dont_write_bytecode, sys.pycache_prefix)"
    assert runner.run_step("x", [sys.executable, "-c", look], log, 60)
    assert log.read_text() == f"False {os.path.join(ROOT, 'build', 'pycache')}\n"


def test_the_slowest_tests_are_shown_in_order(runner, tmp_path, capsys):
    def suite(name, times):
        cases = "".join(f'<testcase classname="a.{name}_module" name="n{t}" time="{t}"/>' for t in times)
        (tmp_path / f"{name}.xml").write_text(f"<testsuite>{cases}</testsuite>")
        return runner.Suite(name, [], str(tmp_path / f"{name}.xml"), runner.count_junit)

    (tmp_path / "broken.xml").write_text("<testsuite>")
    suites = [suite("few", [0.5, 99]), suite("many", range(20)), suite("none", [])]
    suites.append(runner.Suite("broken", [], str(tmp_path / "broken.xml"), runner.count_junit))
    suites.append(runner.Suite("text", [], str(tmp_path / "text.txt"), runner.count_last_line))
    runner.print_slowest([(each, runner.Count(), 1.0) for each in suites])
    lines = capsys.readouterr().out.split("\n")
    assert lines[1] == "The 10 slowest tests:" and lines[12:] == [""]
    assert lines[2].split() == ["99.0", "s", "few:", "few_module", "n99"]
    assert [line.split()[-1] for line in lines[3:12]] == [f"n{t}" for t in range(19, 10, -1)]


def test_what_failed_is_said_at_the_end(runner, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, "REPORTS", str(tmp_path))
    failing = tmp_path / "test_failing.py"
    failing.write_text("def test_one():\n    assert 1 == 2, 'no\\nlines'\n\n\ndef test_two():\n    pass\n")
    report = str(tmp_path / "pytest.xml")
    pytest.main(["-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(failing)])
    (tmp_path / "ctest.xml").write_text(
        '<testsuite><testcase classname="test_a" name="test_a" status="fail"><failure message="Failed"/><system-out>'
        "[ RUN      ] one\n[  FAILED  ] one\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] one\n"
        '</system-out></testcase><testcase classname="test_b" name="test_b" status="fail"><failure message="Timeout"/>'
        "<system-out>[ RUN      ] two\n</system-out></testcase></testsuite>"
    )
    counts = {"pytest": runner.count_junit, "ctest": runner.count_ctest, "none": runner.count_junit}
    suites = [runner.Suite(name, [], str(tmp_path / f"{name}.xml"), count) for name, count in counts.items()]
    results = [(suites[0], suites[0].count(report), 1.0), (suites[1], suites[1].count(suites[1].report), 1.0)]
    results.append((suites[2], runner.Count(failed=1), 1.0))
    capsys.readouterr()
    assert not runner.print_summary(results)
    lines = capsys.readouterr().out.split("\n")[4:]
    assert lines[0].startswith("failed: pytest: test_failing test_one ")
    assert lines[0].endswith("test_failing.py:2: AssertionError: AssertionError: no")
    assert lines[1:3] == ["failed: ctest: test_a test_a one", "failed: ctest: test_b test_b : Timeout"]
    assert lines[3] == f"failed: none: 1 in all, see {tmp_path}/none.txt"
    assert lines[4:] == ["1 passed, 4 failed", ""]

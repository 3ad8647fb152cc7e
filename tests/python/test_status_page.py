"""The status page, its metrics and `tfos status`, on a real coordinator with real nodes."""

import contextlib
import http.client
import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from browser import Browser
from tensorflowonspark import _native
from test_cli import TFOS

SECONDS = 30
ROWS = "#nodes tr:not(.log)"

# What every node runs. The second worker of a cluster that is to fail reports a traceback, as a Python node does.
PROGRAM = r"""
import json, os, sys, time
node = json.loads(os.environ["TFOS_CONTEXT"])["node"]
print(f"I am {node['role']}:{node['task']} <b>bold</b> \x1b[31mred\x1b[0m caf\u00e9", flush=True)
for step in range(200):
    print(f"step {step} of {node['role']}:{node['task']}", flush=True)
if sys.argv[1] == "fail" and (node["role"], node["task"]) == ("worker", 1):
    text = "Traceback (most recent call last):\n  ValueError: <script>window.broken = 1</script> \\d+"
    os.write(int(os.environ["TFOS_REPORT_FD"]), json.dumps({"event": "raised", "text": text}).encode() + b"\n")
    sys.exit(1)
for step in range(1, 61) if sys.argv[1] == "report" else ():
    values = {"loss": 2 / step + node["task"], "accuracy": 1 - 1 / step, "<b>lr</b>": 1e-5}
    values["loss"] = "nan" if 25 < step < 32 else values["loss"]
    if step % 10 == 0:
        values["val_loss"] = 2.5 / step + node["task"]
    report = {"event": "progress", "epoch": 1 + step // 20, "epochs": 4, "step": step, "rows": 64 * step}
    report["values"] = values
    os.write(int(os.environ["TFOS_REPORT_FD"]), json.dumps(report).encode() + b"\n")
    time.sleep(0.02)  # as a step takes
time.sleep(600)
"""


class Cluster:
    """A coordinator, driven as a driver does, and nodes that are children of this process."""

    def __init__(self, nodes, what="run", start=True, **options):
        program = [sys.executable, "-c", PROGRAM, what]
        self.native = _native.Cluster(nodes, program, b"", "{}", host="127.0.0.1", **options)
        self.url = self.native.url()
        for index in range(nodes if start else 0):
            self.native.spawn(index)

    def status(self, query=""):
        with urllib.request.urlopen(f"{self.url}status.json{query}", timeout=SECONDS) as answer:
            return json.load(answer)

    def wait_for(self, condition):
        end = time.monotonic() + SECONDS
        while not condition(status := self.status("?logs=all")):
            assert time.monotonic() < end, status
            time.sleep(0.05)
        return status

    def wait_until_running(self):
        return self.wait_for(
            lambda status: all(node["state"] == "running" and "step 199" in node["log"] for node in status["nodes"])
        )


@contextlib.contextmanager
def cluster(*arguments, **options):
    made = Cluster(*arguments, **options)
    try:
        yield made
    finally:
        made.native.close()


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    """Nodes keep their logs in the folder of the driver."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def browser(tmp_path):
    with Browser(tmp_path) as made:
        yield made


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(*arguments, code=0, **keywords):
    command = [TFOS, "status", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, **keywords)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


# ---- what a person sees ----


def test_page_shows_a_running_cluster(browser):
    tensorboard = [sys.executable, "-m", "http.server", "{port}", "--bind", "{host}"]
    with cluster(3, ps=1, master="chief", tensorboard=tensorboard) as made:
        made.wait_until_running()
        made.wait_for(lambda status: any(node["tensorboard"] for node in status["nodes"]))
        made.wait_for(lambda status: all(node["rss_bytes"] > 2**20 for node in status["nodes"]))  # a beat has come
        browser.open(made.url)
        badges = "[...document.querySelectorAll('#nodes .badge.good')]"
        browser.wait(f"{badges}.map(e => e.innerText).join() == 'running,running,running'")
        assert browser.text("h1").startswith("Cluster ")
        assert browser.text("#phase") == "running"
        assert browser.texts("#nodes th") == ["ps:0", "chief:0", "worker:0"]
        heads = browser.texts("thead th")
        assert heads == [
            *("Node", "State", "Host", "Executor", "Uptime", "CPU", "Memory", "GPUs", "Last heard", "Log"),
        ]
        shown = "[...r.cells].filter(c => c.getClientRects().length > 0).map(c => c.innerText)"
        cells = browser.run(f"[...document.querySelectorAll('{ROWS}')].map(r => {shown})")
        assert cells[1][2:4] == ["127.0.0.1", "driver"]
        assert re.fullmatch(r"\d+ s", cells[1][4]) and re.fullmatch(r"\d+ %", cells[1][5])
        assert re.fullmatch(r"[\d.]+ MiB", cells[1][6]) and re.fullmatch(r"\d+\.\d s", cells[1][8])
        link = browser.wait("document.querySelector('#tensorboard a')?.href")
        assert urllib.request.urlopen(link, timeout=SECONDS).status == 200
        assert not browser.text("#failure-section") and not browser.text("#refused-section")
        # It goes on by itself.
        before = cells[1][4]
        browser.wait(f"document.querySelectorAll('{ROWS}')[1].cells[4].innerText != '{before}'")
        assert browser.problems == []


def test_page_shows_logs_as_text_and_follows_their_end(browser):
    with cluster(1) as made:
        made.wait_until_running()
        browser.open(made.url)
        browser.wait("document.querySelector('#nodes button') != null")
        browser.run("document.querySelector('#nodes button').click()")
        browser.wait("document.querySelector('#nodes pre')?.innerText.includes('step 199 of worker:0')")
        assert "I am worker:0 <b>bold</b> red café\nstep 0 of worker:0\n" in browser.text("#nodes pre")
        assert browser.run("document.querySelectorAll('#nodes b').length") == 0
        assert browser.run(
            "(box => box.scrollTop > 0 && box.scrollTop + box.clientHeight >= box.scrollHeight - 1)"
            "(document.querySelector('#nodes pre'))"
        )
        browser.run("document.querySelector('#nodes button').click()")
        assert browser.text("#nodes pre") == ""
        assert browser.problems == []


def test_page_shows_the_failure_and_then_that_the_cluster_is_gone(browser):
    with cluster(3, "fail") as made:
        browser.open(made.url)
        browser.wait("document.querySelector('#failure').innerText != ''")
        failure = browser.text("#failure")
        assert failure.startswith("worker:1 on 127.0.0.1 raised an exception: ")
        assert "Traceback (most recent call last):\n  ValueError: <script>window.broken = 1</script>" in failure
        assert browser.run("window.broken") is None
        browser.wait("document.querySelector('#phase').innerText == 'failed, over'")
        assert sorted(browser.texts("#nodes .badge")) == ["failed", "stopped", "stopped"]
        assert any("window.broken" in note for note in browser.texts("#nodes .note"))
        assert browser.problems == []
    browser.wait("!document.querySelector('#gone').hidden")
    assert browser.text("#gone").startswith("The cluster is gone; last seen ")
    assert browser.text("#phase") == "gone"
    assert failure == browser.text("#failure"), "what was seen last stays"


def wait_until_reported(made):
    return made.wait_for(lambda status: all(node.get("progress", {}).get("step") == 60 for node in status["nodes"]))


def test_page_draws_what_programs_report(browser):
    with cluster(4, "report", ps=1, settings=["node.report_ms=10"]) as made:
        wait_until_reported(made)
        browser.open(made.url)
        browser.wait("document.querySelectorAll('#curves figure').length == 3")
        assert browser.texts("#curves figcaption .name") == ["loss", "accuracy", "<b>lr</b>"]
        assert browser.texts("#curves figcaption .value") == ["0.03333 · validation 0.04167", "0.9833", "1.00e-5"]
        assert browser.text("#curves-place").startswith("worker:0: epoch 4 of 4 · step 60 · ")
        assert " rows/s · reported " in browser.text("#curves-place")
        assert browser.texts("#curves .scale")[0].split("\n") == ["0.03333 to 2", "step 1 to 60"]
        lines = "[...document.querySelectorAll('#curves path.training')].map(e => e.getAttribute('d'))"
        loss, accuracy, rate = browser.run(lines)
        assert loss.startswith("M4.0 4.0") and loss.count("M") == 2  # a gap where it is NaN
        assert accuracy.startswith("M4.0 96.0") and accuracy.count("L") > 20
        assert " 50.0" in rate
        validation = browser.run("document.querySelector('#curves path.validation').getAttribute('d')")
        assert 1 <= validation.count("L") <= 5
        assert browser.run("document.querySelector('#curves svg').ariaLabel").startswith("loss: 0.03333 · validation")
        # Another node, which must be asked for.
        options = browser.run("[...document.querySelectorAll('#curves-of option')].map(e => e.innerText)")
        assert options == ["ps:0", "worker:0", "worker:1", "worker:2"]
        choose = "e => { e.value = '2'; e.dispatchEvent(new Event('change')); }"
        browser.run(f"({choose})(document.querySelector('#curves-of'))")
        browser.wait("document.querySelector('#curves-place').innerText.startsWith('worker:1: ')")
        assert browser.texts("#curves figcaption .value")[0] == "1.033 · validation 1.042"
        assert browser.problems == []
        # A phone.
        browser.call("Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=2, mobile=True)
        assert browser.run("document.documentElement.scrollWidth") <= 360


def test_page_without_reports_shows_no_curves(browser):
    with cluster(1) as made:
        made.wait_until_running()
        browser.open(made.url)
        browser.wait(f"document.querySelectorAll('{ROWS}').length == 1")
        assert browser.texts("#curves-section") == []


def test_driver_that_goes_leaves_no_noise(capfd):
    """What the coordinator had still to say when the driver closed is nothing to complain about."""
    with cluster(2) as made:
        made.wait_until_running()
    assert capfd.readouterr() == ("", "")


def test_page_says_states_aloud(browser):
    with cluster(1, start=False) as made:
        browser.open(made.url)
        browser.wait("document.querySelector('#nodes .badge')?.innerText == 'absent'")
        assert browser.text("#phase") == "waiting for nodes"
        assert browser.run("document.querySelector('#changes').getAttribute('aria-live')") == "polite"
        made.native.spawn(0)
        browser.wait("/worker:0 is (registered|starting|running)/.test(document.querySelector('#changes').textContent)")
        assert browser.problems == []


def test_page_shows_refused_connections(browser):
    port = free_port()
    with cluster(1, start=False, settings=[f"server.port={port}"]) as made:
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while stranger.recv(1024):
                pass
        browser.open(made.url)
        browser.wait("document.querySelector('#refused li') != null")
        assert browser.texts("#refused li") == ["1 without the cluster key, or not with TLS"]
        assert "1 without the cluster key, or not with TLS" in run(made.url).stdout


def test_page_with_a_thousand_nodes_changes_only_what_changed(browser):
    with cluster(1000, start=False) as made:
        browser.open(made.url)
        browser.wait(f"document.querySelectorAll('{ROWS}').length == 1000")
        browser.run(
            "window.changes = 0; window.firstRow = document.querySelector('#nodes tr');"
            "new MutationObserver(list => { window.changes += list.length })"
            ".observe(document.querySelector('#nodes'), {childList: true, subtree: true, characterData: true})"
        )
        seen = browser.text("#updated")
        browser.wait(f"document.querySelector('#updated').innerText != {json.dumps(seen)}")
        assert browser.run("window.changes") == 0
        assert browser.run("window.firstRow === document.querySelector('#nodes tr')")
        assert browser.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_on_a_phone_and_in_the_dark(browser, scheme):
    with cluster(2, ps=1) as made:
        made.wait_until_running()
        browser.call("Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=2, mobile=True)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(made.url)
        browser.wait(f"document.querySelectorAll('{ROWS}').length == 2")
        assert browser.run("document.documentElement.scrollWidth") <= 360
        roles = "[...document.querySelectorAll('thead *, tbody tr, tbody th, tbody td')].map(e => e.role)"
        assert set(browser.run(roles)) == {"row", "columnheader", "rowheader", "cell"}
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        lightness = sum(map(int, re.findall(r"\d+", ground)[:3])) / 3
        assert (lightness > 128) == (scheme == "light")


# ---- HTTP ----


def get(url, method="GET", **headers):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    connection.request(method, parts.path + ("?" + parts.query if parts.query else ""), headers=headers)
    with contextlib.closing(connection):
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def test_answers_are_kept_from_others():
    with cluster(1, start=False) as made:
        status, headers, body = get(made.url)
        assert status == 200 and b"<!DOCTYPE html>" in body
        assert headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
        assert headers["X-Frame-Options"] == "DENY" and headers["X-Content-Type-Options"] == "nosniff"
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        token = urllib.parse.urlsplit(made.url).path.strip("/")
        assert re.fullmatch("[0-9a-f]{32}", token)
        wrong = made.url.replace(token, ("0" if token[0] != "0" else "1") + token[1:])
        answers = [get(url) for url in (wrong, f"{wrong}status.json", f"{made.url}nothing")]
        assert answers[0] == answers[1] == answers[2] and answers[0][0] == 404
        assert get(made.url, "POST")[0] == 405
        status, headers, body = get(f"{made.url}status.json", "HEAD")
        assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 100
        status, headers, _ = get(made.url.rstrip("/"))
        assert status == 308 and headers["Location"] == f"/{token}/"


def test_port_of_the_page_can_be_set(monkeypatch):
    port = free_port()
    with cluster(1, start=False, settings=[f"status.port={port}"]) as made:
        assert urllib.parse.urlsplit(made.url).port == port
        with pytest.raises(Exception, match="TFOS_STATUS_PORT"):
            Cluster(1, start=False, settings=[f"status.port={port}"])
    monkeypatch.setenv("TFOS_STATUS_PORT", f"{port}-{port + 20}")
    with cluster(1, start=False) as made:
        assert port <= urllib.parse.urlsplit(made.url).port <= port + 20
    monkeypatch.setenv("TFOS_STATUS_PORT", "many")
    with pytest.raises(ValueError, match="TFOS_STATUS_PORT"):
        Cluster(1, start=False)


# ---- Prometheus ----

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


def parse_metrics(text):
    """The samples by name and labels; an exception for whatever the format does not allow."""
    assert text.endswith("\n")
    types, helps, samples, family = {}, set(), {}, None
    for line in text[:-1].split("\n"):
        if match := re.fullmatch(r"# HELP (\w+) (.+)", line):
            assert match[1] not in helps
            helps.add(match[1])
        elif match := re.fullmatch(r"# TYPE (\w+) (counter|gauge)", line):
            assert match[1] in helps and match[1] not in types
            family, types[match[1]] = match[1], match[2]
            assert match[1].endswith("_total") == (match[2] == "counter"), line
        else:
            match = SAMPLE.fullmatch(line)
            assert match and match[1] == family, line
            labels = tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            assert (family, labels) not in samples, line
            samples[family, labels] = float(match[3])
    return types, samples


def test_metrics():
    with cluster(2, ps=1) as made:
        made.wait_until_running()
        made.wait_for(lambda status: all(node["rss_bytes"] > 0 for node in status["nodes"]))
        status, headers, body = get(f"{made.url}metrics")
        types, samples = parse_metrics(body.decode())
        assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        nodes = [(("node", "ps:0"), ("host", "127.0.0.1")), (("node", "worker:0"), ("host", "127.0.0.1"))]
        assert samples["tfos_nodes", (("state", "running"),)] == 2
        assert sum(value for (name, _), value in samples.items() if name == "tfos_nodes") == 2
        assert sum(value for (name, _), value in samples.items() if name == "tfos_cluster_phase") == 1
        for labels in nodes:
            assert samples["tfos_node_resident_memory_bytes", labels] > 1 << 20
            assert 0 <= samples["tfos_node_cpu_seconds_total", labels] < 60
            assert 0 < samples["tfos_node_uptime_seconds", labels] < 60
            assert 0 <= samples["tfos_node_heartbeat_age_seconds", labels] < 10
        assert samples["tfos_connections_accepted_total", ()] == 2
        assert samples["tfos_connections_refused_total", (("cause", "key"),)] == 0
        assert 1 << 20 < samples["tfos_coordinator_resident_memory_bytes", ()] < 200 << 20
        assert types["tfos_node_cpu_seconds_total"] == "counter"


# ---- tfos status ----


def test_command_prints_the_same():
    with cluster(3, "fail") as made:
        made.wait_for(lambda status: status["phase"] == "over")
        lines = run(made.url).stdout.split("\n")
        name = made.status()["cluster"]
        assert lines[0] == f"Cluster {name}: failed, over; 3 of 3 nodes registered; attempt 0; tfos {_native.version}"
        assert lines[2] == "First failure:"
        assert lines[3].startswith("  worker:1 on 127.0.0.1 raised an exception: ")
        assert "    ValueError: <script>window.broken = 1</script> \\d+" in lines
        table = lines[lines.index("", 3) + 1 :]
        assert table[0].split() == ["node", "state", "host", "executor", "uptime", "cpu", "memory", "gpus", "heard"]
        assert [line.split()[:4] for line in table[1:4]] == [
            ["worker:0", "stopped", "127.0.0.1", "driver"],
            ["worker:1", "failed", "127.0.0.1", "driver"],
            ["worker:2", "stopped", "127.0.0.1", "driver"],
        ]
        assert not any(line.endswith(" ") for line in lines)
        logs = run("--logs", made.url).stdout
        assert "End of the log of worker:1:\n  I am worker:1 <b>bold</b> red café\n  step 0 of worker:1\n" in logs


def test_reports_are_for_programs_and_for_terminals():
    with cluster(2, "report", settings=["node.report_ms=10"]) as made:
        wait_until_reported(made)
        _, samples = parse_metrics(get(f"{made.url}metrics")[2].decode())
        for task in range(2):
            labels = (("node", f"worker:{task}"), ("host", "127.0.0.1"))
            assert samples["tfos_progress_step", labels] == 60
            assert samples["tfos_progress_epoch", labels] == 4
            assert samples["tfos_progress_rows_per_second", labels] > 0
            assert samples["tfos_progress_value", (*labels, ("metric", "<b>lr</b>"))] == 1e-5
            assert samples["tfos_progress_value", (*labels, ("metric", "loss"))] == pytest.approx(2 / 60 + task)
        lines = run(made.url).stdout.split("\n")
        shown = lines[lines.index("Progress:") + 1]
        assert shown.startswith("  worker:0: epoch 4/4 step 60, loss 0.0333333, accuracy 0.983333, <b>lr</b> 1e-05")
        nodes = json.loads(run("--json", made.url).stdout)["nodes"]
        assert [("curves" in node["progress"]) for node in nodes] == [True, False]
        points = nodes[0]["progress"]["curves"]["loss"]
        assert 20 < len(points) <= 60 and points[0] == 2
        assert ["curves" in node["progress"] for node in made.status("?curves=1")["nodes"]] == [False, True]
        assert ["curves" in node["progress"] for node in made.status("?curves=all")["nodes"]] == [True, True]


def test_command_prints_json():
    with cluster(1) as made:
        made.wait_until_running()
        found = json.loads(run("--json", made.url).stdout)
        assert [node["node"] for node in found["nodes"]] == ["worker:0"]
        assert "log" not in found["nodes"][0]
        with_logs = json.loads(run("--json", "--logs", made.url).stdout)
        assert "step 199" in with_logs["nodes"][0]["log"]
        # Any file of the page, and the address without its last "/", will do; so will the environment.
        for url in (made.url.rstrip("/"), f"{made.url}status.json", f"{made.url}metrics"):
            assert json.loads(run("--json", url).stdout)["cluster"] == found["cluster"]
        environment = {**os.environ, "TFOS_STATUS_URL": made.url}
        assert json.loads(run("--json", env=environment).stdout)["cluster"] == found["cluster"]


def test_command_says_what_is_wrong():
    with cluster(1, start=False) as made:
        token = urllib.parse.urlsplit(made.url).path.strip("/")
        assert "does not know this address" in run(made.url.replace(token, "0" * 32), code=4).stderr
        url = made.url
    assert "does not answer" in run(url, code=3).stderr
    assert "cannot be found" in run("http://host.invalid:1/token/", code=3).stderr
    for wrong in ("ftp://host/token/", "host:80/token", "http://host:80/", "http://host:80", "nonsense", "http://:1/x"):
        assert "is no address of a status page" in run(wrong, code=2).stderr
    assert "expected the address" in run(code=2, env={**os.environ, "TFOS_STATUS_URL": ""}).stderr
    assert "takes one address" in run(url, url, code=2).stderr
    assert "Examples:" in run("--help").stdout


@pytest.mark.parametrize(
    "answer",
    [b"220 mail\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 500 No\r\n\r\n", b"", b"HTTP/1.1"],
)
def test_command_is_not_fooled_by_other_servers(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/token/"
        with subprocess.Popen([TFOS, "status", url], stderr=subprocess.PIPE, text=True) as process:
            with server.accept()[0] as peer:
                assert peer.recv(4096).startswith(b"GET /token/status.json HTTP/1.1\r\n")
                peer.sendall(answer)
            error = process.communicate(timeout=SECONDS)[1]
        assert process.returncode == 1 and error.startswith("tfos: "), error


def read_terminal(master, until):
    seen = b""
    end = time.monotonic() + SECONDS
    while until not in seen:
        ready, _, _ = select.select([master], [], [], max(0, end - time.monotonic()))
        assert ready, seen
        seen += os.read(master, 65536)
    return seen


def test_command_watches_until_the_cluster_is_gone():
    master, slave = pty.openpty()
    with cluster(1) as made:
        made.wait_until_running()
        process = subprocess.Popen([TFOS, "status", "--watch", made.url], stdout=slave, stderr=slave)
        os.close(slave)
        first = read_terminal(master, b"s ago")
        assert first.startswith(b"\x1b[H\x1b[2J") and b"worker:0  running" in first
        read_terminal(master, b"\x1b[H\x1b[2J")
    assert b"the cluster is gone; last seen 2" in read_terminal(master, b"last seen 2")
    assert process.wait(timeout=SECONDS) == 0
    os.close(master)


def test_command_shows_control_characters():
    """What nodes print cannot command the terminal."""
    body = json.dumps({"cluster": "a\x1b]0;title\x07", "nodes": [], "failure": "x\x1b[2Jy\x07\x9b\ttab"}).encode()
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/token"
        with subprocess.Popen([TFOS, "status", url], stdout=subprocess.PIPE) as process:
            with server.accept()[0] as peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            text = process.communicate(timeout=SECONDS)[0].decode()
    assert "Cluster a\\x1b]0;title\\x07: failed, " in text
    assert "  xy\\x07\\xc2\\x9b    tab\n" in text

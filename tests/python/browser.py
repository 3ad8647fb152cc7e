"""A headless Chromium, driven through its DevTools pipe: what a person would see and click."""

import json
import os
import select
import shutil
import subprocess
import time

import pytest

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
SECONDS = 60


def find_browser():
    """The path of a browser that runs; skips the test when there is none (Ubuntu's package is a door to a snap)."""
    tried = []
    for name in NAMES:
        path = shutil.which(name)
        if path:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=SECONDS)
            if done.returncode == 0 and done.stdout.strip():
                return path
            tried.append(f"{path} says: {(done.stdout + done.stderr).strip()[:200]}")
    pytest.skip(f"no Chromium or Chrome that runs; looked for {', '.join(NAMES)}. {' '.join(tried)}")


class Browser:
    """One browser with one page. `problems` are the errors in its console."""

    def __init__(self, folder):
        # The browser reads what it is told from descriptor 3 and answers on descriptor 4.
        self.theirs_in, self.to = os.pipe()
        self.of, self.theirs_out = os.pipe()
        command = f'exec "$@" 3<&{self.theirs_in} 4>&{self.theirs_out} 2>"$0/browser.log"'
        options = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio"]
        options += ["--no-sandbox", "--disable-background-networking", f"--user-data-dir={folder}/profile"]
        self.process = subprocess.Popen(
            ["bash", "-c", command, str(folder), find_browser(), *options, "--remote-debugging-pipe", "about:blank"],
            pass_fds=(self.theirs_in, self.theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(self.theirs_in)
        os.close(self.theirs_out)
        self.received = b""
        self.count = 0
        self.session = None
        self.problems = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        os.close(self.to)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.of)

    def _receive(self):
        end = time.monotonic() + SECONDS
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.of], [], [], max(0, end - time.monotonic()))
            chunk = os.read(self.of, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError("the browser does not answer")
            self.received += chunk
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event):
        method, values = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(values["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append(values["entry"]["text"])

    def call(self, method, **values):
        self.count += 1
        request = {"id": self.count, "method": method, "params": values}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self.count:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait(f"location.href == {json.dumps(url)} && document.readyState == 'complete'")

    def run(self, script):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script, seconds=30):
        """Waits until an expression in the page is true, and returns its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"not within {seconds} s: {script}\n{self.text()}"
            time.sleep(0.05)
        return value

    def text(self, selector="body"):
        """What can be read in the first such element that can be seen."""
        return next(iter(self.texts(selector)), "")

    def texts(self, selector):
        elements = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.run(f"{elements}.filter(e => e.checkVisibility()).map(e => e.innerText)")

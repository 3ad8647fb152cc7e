"""A real HDFS for tests, and jobs of Hadoop's on it. Its jars are fetched when a test first needs them."""

import contextlib
import dataclasses
import glob
import json
import os
import subprocess
import urllib.parse
import urllib.request

from processes import JAVA_OPTIONS, ROOT, java_home, wait_for

SOURCES = os.path.join(ROOT, "tests", "hadoop")
JARS = os.path.join(ROOT, "build", "hadoop", "jars")
SUPERUSER = "hdfs"


def jars(old_formats=False):
    """Hadoop, and the old formats if they are asked for: their classes have the names of ours."""
    subprocess.run([os.path.join(ROOT, "scripts", "hadoop-jars")], check=True)
    found = sorted(glob.glob(os.path.join(JARS, "*.jar")))
    return [path for path in found if old_formats or "tensorflow-hadoop" not in path]


def java(folder, places, *arguments, options=()):
    """The command that runs a class, or a source file, of `places`. What it writes of its own is below the folder."""
    opened = "--add-opens=java.base/java.lang=ALL-UNNAMED"
    command = [os.path.join(java_home(), "bin", "java"), *JAVA_OPTIONS.split(), "-Xmx512m", opened, *options]
    return [*command, f"-Djava.io.tmpdir={folder}", "-cp", os.pathsep.join(places), *arguments]


@dataclasses.dataclass
class Hdfs:
    folder: str
    address: str  # hdfs://…
    web: str  # http://…

    def call(self, operation, path, method="GET", data=None, user=SUPERUSER, **parameters):
        """An operation of WebHDFS; its answer. Data goes to a data node, which the first answer names."""
        query = urllib.parse.urlencode({"op": operation, "user.name": user, **parameters})
        url = f"{self.web}/webhdfs/v1{urllib.parse.quote(path)}?{query}"
        if data is not None:
            url = json.loads(self._request(url + "&noredirect=true", method))["Location"]
        return self._request(url, method, data)

    def _request(self, url, method, data=None):
        header = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(url, data, header, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def read(self, path):
        return self.call("OPEN", path)

    def write(self, path, data, **parameters):
        self.call("CREATE", path, "PUT", data, overwrite="true", **{"permission": "777", **parameters})

    def delete(self, path):
        self.call("DELETE", path, "DELETE", recursive="true")

    def give_away(self, path, mode):
        """The file, or the folder, is then somebody else's."""
        self.call("SETOWNER", path, "PUT", owner="somebody", group="else")
        self.call("SETPERMISSION", path, "PUT", permission=mode)

    def files(self, path):
        """{path: bytes in it} of the files below a folder, whatever their names."""
        found = {}
        for entry in json.loads(self.call("LISTSTATUS", path))["FileStatuses"]["FileStatus"]:
            below = f"{path}/{entry['pathSuffix']}"
            found.update(self.files(below) if entry["type"] == "DIRECTORY" else {below: entry["length"]})
        return found

    def data_files(self, path):
        return sorted(each for each in self.files(path) if os.path.basename(each).startswith("part-"))

    def blocks(self):
        """The files in which the data node has its blocks."""
        paths = glob.glob(f"{self.folder}/hdfs/data/*/current/BP-*/current/finalized/**/blk_*", recursive=True)
        return {path for path in paths if not path.endswith(".meta")}

    def fetch(self, path, folder):
        """Copies the data files of a folder to a local one; their paths."""
        copies = []
        for each in self.data_files(path):
            copies.append(os.path.join(folder, os.path.basename(each)))
            with open(copies[-1], "wb") as file:
                file.write(self.read(each))
        return copies


@contextlib.contextmanager
def hdfs(folder, yarn=False):
    """A name node and a data node in a process of their own, which ends with this one or before. Its superuser is not
    the user of the tests. With YARN if it is asked for."""
    folder = str(folder)
    log = os.path.join(folder, "hdfs.log")
    command = java(folder, jars(), os.path.join(SOURCES, "Hdfs.java"), folder, *(["yarn"] if yarn else []))
    variables = {**os.environ, "HADOOP_USER_NAME": SUPERUSER, "JAVA_HOME": java_home()}
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=folder, env=variables
        )

    def places():
        assert process.poll() is None, open(log, encoding="utf-8", errors="replace").read()[-4000:]
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(folder, "address"), encoding="utf-8") as file:
                return file.read().split()

    try:
        yield Hdfs(folder, *wait_for(places, 120))
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

"""The one table of `make bench`: on the terminal, and as Markdown in docs/benchmarks.md."""

import dataclasses
import datetime
import importlib.metadata
import os
import platform
import re

HEADINGS = ("work", "peer", "ours", "ratio", "asked", "met?")


@dataclasses.dataclass
class Row:
    """One line. `met` is None where nothing was asked."""

    work: str
    peer: str = ""
    ours: str = ""
    ratio: str = ""
    asked: str = ""
    met: bool | None = None

    def cells(self):
        return self.work, self.peer, self.ours, self.ratio, self.asked, {None: "", True: "yes", False: "no"}[self.met]


@dataclasses.dataclass
class Section:
    """What one section of the benchmark found: rows, and sentences that say how they were measured."""

    name: str
    title: str
    rows: list[Row]
    notes: list[str]


def as_text(section):
    cells = [HEADINGS, *(row.cells() for row in section.rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    notes = [f"- {note}" for note in section.notes]
    return "\n".join([f"{section.name}: {section.title}", "", *lines, "", *notes])


def as_markdown(section, machine):
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(row.cells() for row in section.rows)]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    notes = [f"- {note}" for note in section.notes]
    return "\n".join([f"## {section.name}: {section.title}", "", *table, "", *notes, "", f"Measured on: {machine}."])


def save(path, section, machine):
    """Puts the section between its markers, at the end if there are none yet; the rest of the page stays as it is."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    begin, end = f"<!-- {section.name}: begin -->", f"<!-- {section.name}: end -->"
    block = f"{begin}\n{as_markdown(section, machine)}\n{end}"
    if begin in page and end in page:
        page = page[: page.index(begin)] + block + page[page.index(end) + len(end) :]
    else:
        page = f"{page.rstrip()}\n\n{block}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


def machine():
    """The machine, the versions and how busy it was, in one line."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"^model name\s*:\s*(.*)", file.read(), re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [
        model[1] if model else platform.machine(),
        f"{os.cpu_count()} cores",
        f"{memory:.0f} GiB",
        f"Linux {platform.release()}",
        f"Python {platform.python_version()}",
        f"TensorFlow {_version('tensorflow-cpu', 'tensorflow')}",
        datetime.date.today().isoformat(),
        f"load average {os.getloadavg()[0]:.1f} at the start",
    ]
    return ", ".join(parts)


def _version(*names):
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "not installed"


# ---- numbers ----


def rate(per_second, unit):
    """Three digits: rate(1.5e9, "B") is "1.50 GB/s", rate(2.1e5, " rec") is "210 k rec/s"."""
    scale, prefix = next(((s, p) for s, p in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if per_second >= s), (1, ""))
    return f"{_digits(per_second / scale)} {prefix}{unit}/s".replace("  ", " ")


def megabytes(count):
    return f"{_digits(count / 1e6)} MB"


def times(ratio):
    return f"{_digits(ratio)} ×"


def _digits(value):
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"

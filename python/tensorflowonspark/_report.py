"""How feeding goes: what TFCluster.feed_report returns."""

import time
from typing import Any, NamedTuple

_SETTLE_S = 0.2  # a node's word may have been under way for so long when feeding came to its end
_WAIT_S = 10.0
_SHOWN = 20  # partitions in the printed form

_LISTS = ("partition_list", "under_way")  # a feed has one of them
_FEED_COLUMNS = ("feed", "kind", "queue", "state", "epoch", "partitions", "complete", "feeding", "skipped")
_FEED_ROWS = ("fed_rows", "consumed_rows", "skipped_rows", "duplicate_rows")
_NODE_COLUMNS = ("role", "task", "host", "state", "fed_rows", "consumed_rows", "skipped_rows", "rows_per_s")


class Partition(NamedTuple):
    """A partition in the last epoch of a feed of train. Rows: fed, of which consumed were taken by programs, and
    skipped never will be."""

    feed: int
    partition: int
    state: str  #: waiting, feeding, draining (fed and not yet taken), changing hands, complete, skipped
    rows: int | None  #: None until all of them have been seen
    fed: int
    consumed: int
    skipped: int
    attempts: int


class FeedReport(dict):
    """{"feeds": […], "nodes": […], "partitions": […]}, which prints as tables."""

    @property
    def feeds(self) -> list[dict[str, Any]]:
        return self["feeds"]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return self["nodes"]

    @property
    def partitions(self) -> list[Partition]:
        """Of each feed that has at most 10 000 of them; of larger ones those that are under way."""
        return self["partitions"]

    def __str__(self) -> str:
        feeds = _table(_FEED_COLUMNS + _FEED_ROWS, self.feeds)
        nodes = _table(_NODE_COLUMNS, self.nodes)
        open_ones = [each for each in self.partitions if each.state != "complete"]
        shown = _table(Partition._fields, [each._asdict() for each in open_ones[:_SHOWN]])
        more = len(open_ones) - _SHOWN
        complete = len(self.partitions) - len(open_ones)
        tail = [f"{complete} partitions are complete"] if self.partitions else []
        tail += [f"{more} more are not"] if more > 0 else []
        return "\n\n".join(part for part in (feeds, nodes, shown, "; ".join(tail)) if part)


def make(session: Any, fed_until: float | None) -> FeedReport:
    """The report; after the end of feeding it waits until every node has counted."""
    deadline = time.monotonic() + _WAIT_S
    status = session.status()
    while fed_until is not None and not session.over.is_set() and not _settled(status, fed_until):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
        status = session.status()
    found = status.get("feeds", [])
    partitions = [
        Partition(feed["feed"], *each) for feed in found for key in _LISTS for each in feed.get(key, [])
    ]
    feeds = [{key: value for key, value in feed.items() if key not in _LISTS} for feed in found]
    return FeedReport(feeds=feeds, nodes=[_node(each) for each in status.get("nodes", [])], partitions=partitions)


def _settled(status: dict[str, Any], fed_until: float) -> bool:
    since = time.monotonic() - fed_until - _SETTLE_S
    fed = [node["feed"] for node in status.get("nodes", []) if "feed" in node and node["state"] == "running"]
    return all(feed["counted_s"] < since for feed in fed)


def _node(node: dict[str, Any]) -> dict[str, Any]:
    return {key: node[key] for key in ("role", "task", "host", "state") if key in node} | node.get("feed", {})


def _table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [list(columns)] + [[_cell(row.get(name)) for name in columns] for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    return "\n".join("  ".join(_padded(cell, width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.0f}" if isinstance(value, float) else str(value)


def _padded(cell: str, width: int) -> str:
    return cell.rjust(width) if cell.replace("-", "").isdigit() else cell.ljust(width)

"""What the programs of a cluster leave behind: the value that each returned, and its history. For both ends: a program
hands its value to its node here, and the driver collects them."""

import json
import os
import pickle
import sys
from typing import Any, NamedTuple

# ---- on the driver ----


class NodeResult(NamedTuple):
    """What a node has left behind.

    Until it has ended well, value is None and history empty; failure says how it ended if it has not ended well, and
    problem why there is no value although it has.
    """

    role: str  #: "worker"
    index: int  #: 1 of "worker:1"
    host: str
    state: str  #: "running", "finished", "failed", …
    value: Any  #: what map_fun returned
    history: dict[str, list[float | None]]  #: what was reported: a list of numbers for each name
    failure: str | None
    problem: str | None

    @property
    def node(self) -> str:
        """As "worker:1"."""
        return f"{self.role}:{self.index}"


def collect(session: Any) -> list[NodeResult]:
    """Of every node that has come, in the order of the cluster."""
    found: list[NodeResult] = []
    session.call(lambda driver: driver.ask_results(), lambda order: found.append(_result_of(order)))
    return found


def _result_of(order: dict[str, Any]) -> NodeResult:
    told = json.loads(order["text"], strict=False)
    value, problem = None, told.get("problem")
    if order["bytes"]:
        try:
            value = _value_of(order["bytes"])
        except Exception as error:
            problem = f"what the program returned cannot be read here: {type(error).__name__}: {error}"
    ended_badly = told["state"] in ("failed", "lost", "stopped")
    return NodeResult(
        role=told["role"],
        index=told["task"],
        host=told["host"],
        state=told["state"],
        value=value,
        history={name: [_number(each) for each in list] for name, list in told.get("history", {}).items()},
        failure=told["ended"] if ended_badly else None,
        problem=problem,
    )


def _value_of(told: bytes) -> Any:
    """A pickle, or an object of JSON, as programs in C have it."""
    return json.loads(told) if told[:1] == b"{" else pickle.loads(told)


def _number(told: float | str | None) -> float | None:
    return None if told is None else float(told)


# ---- in the program ----


def hand_over(value: Any, supervisor: Any) -> None:
    """Leaves what the program returned in the file that its node has made for it."""
    if value is None:
        return
    value = getattr(value, "history", value) if type(value).__name__ == "History" else value  # not the model with it
    file = int(os.environ["TFOS_RESULT_FD"])
    most = os.fstat(file).st_size
    try:
        pickled = _pickle(value)
    except Exception as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        supervisor.tell(event="returned", problem=f"a {kind} cannot be pickled: {error}. {_INSTEAD}")
        return
    if len(pickled) > most:
        text = f"it has {len(pickled)} bytes, and node.result_bytes allows {most}. {_INSTEAD}"
        supervisor.tell(event="returned", problem=text)
        return
    written = 0
    while written < len(pickled):
        written += os.pwrite(file, pickled[written:], written)
    supervisor.tell(event="returned", bytes=len(pickled))


_INSTEAD = "Write it to a file that the driver can read, and return its path."


def _pickle(value: Any) -> bytes:
    """As Spark does: functions and classes of the program go along."""
    return sys.modules["pyspark.cloudpickle"].dumps(value)  # which is there; to import PySpark takes long

"""What callers and hosts tell each other, and at which places of the world.

    /runtime/workflows/hosts                 members: one a host, under its lease
    /runtime/workflows/hosts/<place>         its inbox, an environment under its lease: the stream `calls`
    /runtime/workflows/<flow>                a flow, under its script's lease; `waits`: methods that wait for long
    /runtime/workflows/<flow>/<caller>       outcomes of one caller's calls, under its lease: `r<number>`, and
                                             `v<number>` for the value of a large one

A caller is named by the id of its lease, the place of a host by its name and that id: what was meant for a host that
was killed never reaches the next one of the name. An outcome is written once: by the host that ran the call, in the
transaction of its effects, or by the caller that gave it up. Whoever comes second has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ecumene.workflows.calls import Call, Outcome
from ecumene.workflows.errors import Failure, Origin, ResultLostError
from ecumene.workflows.values import Tree, dump

ROOT = "/runtime/workflows"
HOSTS = f"{ROOT}/hosts"
CALLS = "calls"
WAITS = "waits"


def name_place(host: str, lease_id: int) -> str:
    """The place of a host."""
    return f"{host}-{lease_id}"


def host_of(place: str) -> str:
    """The name of the host at a place."""
    return place.rpartition("-")[0] or place


def inbox_path(place: str) -> str:
    """Where the host at a place is told of calls."""
    return f"{HOSTS}/{place}"


def flow_path(flow: str) -> str:
    """Where a flow keeps what is its own."""
    return f"{ROOT}/{flow}"


def outcomes_path(flow: str, caller: str) -> str:
    """Where outcomes of a caller's calls appear."""
    return f"{ROOT}/{flow}/{caller}"


class Message:
    """A call on its way to a host."""

    __slots__ = (
        "actor",
        "attempt",
        "caller",
        "class_name",
        "do",
        "flow",
        "inner",
        "lane",
        "method",
        "number",
        "refs",
        "resent",
        "retry",
        "size",
        "timeout_s",
    )

    def __init__(self, document: Mapping[str, Any], size: int) -> None:
        self.do: str = document["do"]
        self.flow: str = document["flow"]
        self.caller: str = document["caller"]
        self.number: int = document["call"]
        self.lane: str = document["lane"]
        """Actor whose method makes the call; "" = the script. Calls of one lane on one actor keep their order."""
        self.actor: str = document["actor"]
        self.class_name: str = document["class"]
        self.method: str = document["method"]
        self.inner: Tree = document["in"]
        self.refs: Sequence[int] = document.get("refs", ())
        """Calls of the same caller whose results are the `$ref`s of `inner`."""
        self.retry: int = document.get("retry", 0)
        self.resent: int = document.get("resent", 0)
        """How often it was sent again, since its host was lost."""
        self.attempt = 0
        """How often it was run here."""
        self.timeout_s: float | None = document.get("timeout_s")
        self.size = size

    def __str__(self) -> str:
        return f"{self.class_name.rpartition(':')[2]}.{self.method or '__init__'}"


def mark_resent(text: str, times: int) -> str:
    """The message of a call that is sent again."""
    return f'{text[:-1]},"resent":{times}}}'


def read_message(text: str) -> Message:
    """A message as it was sent.

    Raises:
        ValueError: it is none.
    """
    try:
        return Message(json.loads(text), len(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the message of a call: {error}") from error


def write_ok(tree: Tree) -> str:
    """The outcome of a call that returned."""
    return dump({"ok": tree})


def write_failure(failure: Failure) -> str:
    """The outcome of a call that did not."""
    return dump({"error": failure.to_plain()})


def write_large(size_bytes: int) -> str:
    """Tells of an outcome that has to be fetched."""
    return dump({"large": size_bytes})


def is_failure(text: str) -> bool:
    """Whether an outcome is a failure, without reading it."""
    return text.startswith('{"error"')


def large_bytes(text: str) -> int:
    """Bytes of an outcome that has to be fetched; 0 = it is here."""
    return int(json.loads(text)["large"]) if text.startswith('{"large"') else 0


def read_outcome(text: str) -> Outcome:
    """An outcome as it was written; what is none of ours is a lost result."""
    try:
        document = json.loads(text)
        if "ok" in document:
            return Outcome(tree=document["ok"])
        if "large" in document:
            return Outcome(large_bytes=int(document["large"]))
        return Outcome(failure=Failure.from_plain(document["error"]))
    except (ValueError, KeyError, TypeError) as error:
        return Outcome(failure=Failure(ResultLostError.code, f"the entry holds no outcome: {error}"))


def place_failure(failure: Failure, call: Call) -> Failure:
    """A failure as a call has it: with the call as its origin, unless it has another one."""
    if failure.origin.actor:
        return failure.passed_through(str(call))
    origin = Origin(call.target.actor, call.target.class_name, call.method, host_of(call.sent_to or call.target.host))
    return Failure(failure.code, failure.text, failure.kind, origin, failure.causes, failure.through)

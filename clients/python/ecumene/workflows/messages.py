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
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ecumene.workflows.calls import CALL, MAKE, STOP, Call, Outcome
from ecumene.workflows.errors import Failure, Origin, ResultLostError
from ecumene.workflows.limits import RETRY_MAX, is_time
from ecumene.workflows.values import Tree, dump

ROOT = "/runtime/workflows"
HOSTS = f"{ROOT}/hosts"
CALLS = "calls"
WAITS = "waits"
CALL_NUMBER_MAX = 1 << 34
"""Of one caller: a producer's number has 28 bits beside it."""

_FLOW = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
_CALLER = re.compile(r"[a-z0-9-]{1,24}")
_ACTOR = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NUMBER = re.compile(r"r([0-9]{1,11})")
_LARGE = re.compile(r'\{"large":([1-9][0-9]{0,8})\}')


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
        "life",
        "method",
        "number",
        "observed_at_ns",
        "refs",
        "resent",
        "retry",
        "revision",
        "size",
        "timeout_s",
    )

    def __init__(self, document: Mapping[str, Any], size: int) -> None:
        """Raises ValueError or KeyError for what no caller sends: others read it without care."""
        self.do = _read_text(document, "do")
        self.flow = _read_name(document, "flow", _FLOW)
        self.caller = _read_name(document, "caller", _CALLER)
        self.number = _read_count(document, "call", CALL_NUMBER_MAX)
        self.lane = _read_text(document, "lane")
        """Actor whose method makes the call; "" = the script. Calls of one lane on one actor keep their order."""
        self.actor = _read_name(document, "actor", _ACTOR)
        self.class_name = _read_text(document, "class")
        self.method = _read_text(document, "method")
        self.inner: Tree = document["in"]
        self.refs: Sequence[int] = document.get("refs", ())
        """Calls of the same caller whose results are the `$ref`s of `inner`."""
        self.retry = _read_count(document, "retry", RETRY_MAX)
        self.resent = _read_count(document, "resent", RETRY_MAX)
        """How often it was sent again, since its host was lost."""
        self.life = _read_count(document, "made", RETRY_MAX) + self.resent
        """Of one that makes an actor: how often that was made before."""
        self.attempt = 0
        """How often it was run here."""
        self.timeout_s: float | None = document.get("timeout_s")
        self.size = size
        self.revision = 0
        """At which it came, and when; 0 in a local flow."""
        self.observed_at_ns = 0
        if self.do not in (MAKE, CALL, STOP):
            raise ValueError(f"it says do {self.do!r}")
        if self.lane and not _ACTOR.fullmatch(self.lane):
            raise ValueError("its lane is no actor")
        if not isinstance(self.inner, list) or not 1 <= len(self.inner) <= 2:
            raise ValueError("it has no arguments")
        if not isinstance(self.refs, list | tuple) or not all(type(number) is int for number in self.refs):
            raise ValueError("its refs are no numbers of calls")
        if self.timeout_s is not None and not is_time(self.timeout_s):
            raise ValueError("its timeout_s is no time")

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
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("it is no object")
        return Message(document, len(text))
    except (ValueError, KeyError, RecursionError) as error:
        raise ValueError(f"not the message of a call: {error}") from error


def read_number(key: str) -> int:
    """The number of the call whose outcome an entry is; 0 = it is none."""
    found = _NUMBER.fullmatch(key)
    return int(found[1]) if found is not None else 0


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
    found = _LARGE.fullmatch(text)
    return int(found[1]) if found is not None else 0


def read_outcome(text: str) -> Outcome:
    """An outcome as it was written; what is none of ours, or has to be fetched, is a lost result and never a value."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or len(document) != 1:
            raise ValueError("it is neither a result nor a failure")
        if "ok" in document:
            return Outcome(tree=document["ok"])
        return Outcome(failure=Failure.from_plain(document["error"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Outcome(failure=Failure(ResultLostError.code, f"the entry holds no outcome: {error}"))


def write_foreign(key: str) -> str:
    """The outcome of a call in whose place somebody wrote what is none."""
    return write_failure(Failure(ResultLostError.code, f"the entry {key} holds no outcome"))


def place_failure(failure: Failure, call: Call) -> Failure:
    """A failure as a call has it: with the call as its origin, unless it has another one."""
    if failure.origin.actor:
        return failure.passed_through(str(call))
    origin = Origin(call.target.actor, call.target.class_name, call.method, host_of(call.sent_to or call.target.host))
    return Failure(failure.code, failure.text, failure.kind, origin, failure.causes, failure.through)


def _read_text(document: Mapping[str, Any], name: str) -> str:
    found = document[name]
    if not isinstance(found, str):
        raise ValueError(f"its {name} is no text")
    return found


def _read_name(document: Mapping[str, Any], name: str, form: re.Pattern[str]) -> str:
    found = _read_text(document, name)
    if not form.fullmatch(found):
        raise ValueError(f"its {name} is no name of one")
    return found


def _read_count(document: Mapping[str, Any], name: str, maximum: int) -> int:
    found = document.get(name, 0)
    if type(found) is not int or not 0 <= found <= maximum:
        raise ValueError(f"its {name} is no number from 0 to {maximum}")
    return found

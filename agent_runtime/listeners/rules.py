"""Wake rules of one group, indexed by event type."""

from __future__ import annotations

import fnmatch
import os.path
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ecumene.client import EventFilter

from agent_runtime.model.notices import EVERYONE
from agent_runtime.settings import WakeRule

AGENT_KEY = "{agent}"
ANY_TYPE = 0
_MATCHES_KEPT_MAX = 4096


@dataclass(frozen=True, slots=True)
class _Rule:
    path: re.Pattern[str] | None
    key: re.Pattern[str] | None
    is_addressed: bool


class WakeRules:
    """Finds whom of a group an event wakes."""

    def __init__(self, rules: Sequence[WakeRule]) -> None:
        self._by_type: dict[int, list[_Rule]] = {}
        self._matches: dict[tuple[int, str, str], str | None] = {}
        self._is_addressed = any(rule.key == AGENT_KEY for rule in rules)
        self.event_filter = join_filters(rules)
        """What a watch must ask for so that nothing that wakes anyone is missed."""
        for rule in rules:
            compiled = _Rule(
                compile_path_glob(rule.path) if rule.path else None,
                re.compile(fnmatch.translate(rule.key)) if rule.key and rule.key != AGENT_KEY else None,
                rule.key == AGENT_KEY,
            )
            for kind in rule.event_types() or (ANY_TYPE,):
                self._by_type.setdefault(int(kind), []).append(compiled)

    def match(self, kind: int, path: str, key: str) -> str | None:
        """Whom an event wakes: EVERYONE, the id of one agent (perhaps of another group), or None."""
        if self._is_addressed:
            return self._find(kind, path, key)
        # The same few triples come again each round; keys of a million reports must not pile up.
        triple = (kind, path, key)
        if triple not in self._matches:
            if len(self._matches) >= _MATCHES_KEPT_MAX:
                self._matches.clear()
            self._matches[triple] = self._find(kind, path, key)
        return self._matches[triple]

    def _find(self, kind: int, path: str, key: str) -> str | None:
        addressed = None
        for rule in (*self._by_type.get(kind, ()), *self._by_type.get(ANY_TYPE, ())):
            if rule.path is not None and not rule.path.fullmatch(path):
                continue
            if rule.is_addressed:
                addressed = key or None
            elif rule.key is None or rule.key.fullmatch(key):
                return EVERYONE
        return addressed


def join_filters(rules: Sequence[WakeRule]) -> EventFilter:
    """The narrowest filter that lets through whatever any of the rules wants."""
    kinds = {kind for rule in rules for kind in rule.event_types()}
    types = tuple(sorted(kinds)) if all(rule.types for rule in rules) else ()
    keys = {"" if rule.key == AGENT_KEY else rule.key for rule in rules}
    key_glob = keys.pop() if len(keys) == 1 else ""
    paths = {rule.path for rule in rules}
    if len(paths) == 1:
        return EventFilter(path_glob=paths.pop(), key_glob=key_glob, types=types)
    stems = [re.split(r"[*?\[]", path, maxsplit=1)[0].rpartition("/")[0] or "/" for path in paths]
    shared = os.path.commonpath(stems)
    return EventFilter(path_prefix="" if shared == "/" else shared, key_glob=key_glob, types=types)


def compile_path_glob(glob: str) -> re.Pattern[str]:
    """`*` and `?` stay within a segment, `**` does not; the rest is literal."""
    parts = re.split(r"(\*\*|\*|\?)", glob)
    meanings = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meanings.get(part, re.escape(part)) for part in parts), re.DOTALL)

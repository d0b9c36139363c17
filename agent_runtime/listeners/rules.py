"""Wake rules of one group, found by the type and the place of an event.

A rule's globs mean what they mean in the filters of the server (`ecumene.client.globs`), so that what a watch lets
through and what wakes somebody never differ by the way a glob is read.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ecumene.client import EventFilter
from ecumene.client.globs import compile_key_glob, compile_path_glob, find_literal_prefix

from agent_runtime.model.notices import EVERYONE
from agent_runtime.settings import WakeRule

AGENT_KEY = "{agent}"
ANY_TYPE = 0
_MATCHES_KEPT_MAX = 4096
_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class _Rule:
    path: re.Pattern[str] | None
    key: re.Pattern[str] | None
    is_addressed: bool


class WakeRules:
    """Finds whom of a group an event wakes: rules for one path by that path, the others one by one."""

    def __init__(self, rules: Sequence[WakeRule]) -> None:
        self._by_place: dict[tuple[int, str], list[_Rule]] = {}
        self._by_type: dict[int, list[_Rule]] = {}
        self._matches: dict[tuple[int, str, str], str | None] = {}
        self._is_addressed = any(rule.key == AGENT_KEY for rule in rules)
        self.event_filters = (join_filters(rules),) if rules else ()
        """What a watch must ask for so that nothing that wakes anyone is missed."""
        for rule in rules:
            is_literal = bool(rule.path) and not _MAGIC & set(rule.path)
            compiled = _Rule(
                compile_path_glob(rule.path) if rule.path and not is_literal else None,
                compile_key_glob(rule.key) if rule.key and rule.key != AGENT_KEY else None,
                rule.key == AGENT_KEY,
            )
            for kind in map(int, rule.event_types() or (ANY_TYPE,)):
                if is_literal:
                    self._by_place.setdefault((kind, rule.path), []).append(compiled)
                else:
                    self._by_type.setdefault(kind, []).append(compiled)

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
        for rule in (
            *self._by_place.get((kind, path), ()),
            *self._by_place.get((ANY_TYPE, path), ()),
            *self._by_type.get(kind, ()),
            *self._by_type.get(ANY_TYPE, ()),
        ):
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
    shared = os.path.commonpath([find_literal_prefix(path) if path else "/" for path in paths])
    return EventFilter(path_prefix="" if shared == "/" else shared, key_glob=key_glob, types=types)

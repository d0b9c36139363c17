"""JSON Schemas, compiled. Bounded on purpose: a schema comes from a client, and is run on every value of others.

References stay within the document and form no cycle, patterns are matched in linear time, nothing is fetched, formats
are not looked at. With references followed a schema has a known number of parts; parts times the bytes of a value is
the work of checking it, and that is limited.
"""

from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.ports import Violation
from env_server.model.values import Json, Value, size_of
from env_server.schemas.patterns import weigh_pattern

_VIOLATIONS_MAX: Final = 16
_PATTERN_BYTES_MAX: Final = 1 << 20
_MOVING: Final = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor")
_CHARACTERS_A_PART: Final = 16
"""Texts in a schema count as so many parts; patterns as what it takes to match them."""
_DEPTH_MAX: Final = 128
"""Of a schema with references followed; beyond it this program's own stack is in danger."""
_INDEX_DIGITS_MAX: Final = 9


class CompiledSchema:
    """One schema. Immutable."""

    def __init__(self, validator: Any, parts: int, limits: Limits) -> None:
        self._validator = validator
        self._parts = parts
        self._limits = limits

    def violations(self, value: Value) -> tuple[Violation, ...]:
        """What is wrong with a value, at most sixteen points; () = nothing. Bytes are no JSON, so they never do.

        Raises:
            LimitExceeded: schema_work_max.
        """
        work = self._parts * size_of(value)
        if work > self._limits.schema_work_max:
            raise LimitExceeded("schema_work_max", self._limits.schema_work_max, work)
        if type(value) is bytes:
            return (("", "bytes are no JSON value"),)
        document = value.document if type(value) is Json else value
        try:
            if self._validator.is_valid(document):
                return ()
            found = []
            for error in self._validator.iter_errors(document):
                found.append(("".join(map(_token, error.instance_path)), error.message[:200]))
                if len(found) == _VIOLATIONS_MAX:
                    break
        except ValueError as error:  # a lone surrogate, which JSON can name and no Unicode text holds
            return (("", f"cannot be checked: {str(error)[:200]}"),)
        return tuple(found)


def compile_schema(schema: Json, limits: Limits) -> CompiledSchema:
    """Compiles a schema, of the draft that its `$schema` names, else 2020-12.

    Raises:
        InvalidRequest: INVALID_FIELD; it is no schema, or one that is not served.
        LimitExceeded: schema_bytes_max, schema_parts_max.
    """
    check_count(len(schema.text), "schema_bytes_max", limits)
    document = schema.document
    parts = _Parts(document, limits).count(document)
    try:
        validator = jsonschema_rs.validator_for(
            document,
            validate_formats=False,
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES_MAX),
        )
    except ValueError as error:
        raise _refusal(str(error).partition("\n")[0][:300]) from None
    return CompiledSchema(validator, parts, limits)


class _Parts:
    """Counts the parts of a schema, those that it refers to as often as it does."""

    def __init__(self, document: Any, limits: Limits) -> None:
        self._document = document
        self._limits = limits
        self._known: dict[str, int] = {}
        self._following: set[str] = set()
        self._depth = 0

    def count(self, part: Any) -> int:
        total = 1
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise _refusal(f"is deeper than {_DEPTH_MAX} levels, with references followed")
        if isinstance(part, str):
            total += len(part) // _CHARACTERS_A_PART
        elif isinstance(part, list):
            total += sum(map(self.count, part))
        elif isinstance(part, dict):
            total += sum(self._count_member(part, name, value) for name, value in part.items())
        check_count(total, "schema_parts_max", self._limits)
        self._depth -= 1
        return total

    def _count_member(self, part: dict[str, Any], name: str, value: Any) -> int:
        # A part with an id or a draft of its own would have references of its own; draft 4 calls an id just that.
        is_moving = name in _MOVING or (name in ("$id", "id", "$schema") and isinstance(value, str))
        if is_moving and (name in _MOVING or part is not self._document):
            raise _refusal(f"{name} is not served: refer to parts of the schema by #/...")
        if name == "$ref" and isinstance(value, str):
            return self._follow(value)
        if name == "pattern" and isinstance(value, str):
            return weigh_pattern(value)
        if name == "patternProperties" and isinstance(value, dict):
            return self.count(value) + sum(map(weigh_pattern, value))
        return self.count(value)

    def _follow(self, reference: str) -> int:
        known = self._known.get(reference)
        if known is None:
            if reference in self._following:
                raise _refusal(f"{reference!r} refers to itself")
            self._following.add(reference)
            known = self._known[reference] = self.count(self._find(reference))
            self._following.discard(reference)
        return known

    def _find(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise _refusal(f"{reference[:100]!r} is not served: refer to parts of the schema by #/...")
        try:
            pointer = unquote(reference, errors="strict")
        except ValueError:
            raise _refusal(f"{reference[:100]!r} is no text") from None
        found = self._document
        for token in pointer.split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            is_index = token.isascii() and token.isdecimal() and len(token) <= _INDEX_DIGITS_MAX
            if isinstance(found, list) and is_index and int(token) < len(found):
                found = found[int(token)]
            elif isinstance(found, dict) and token in found:
                found = found[token]
            else:
                raise _refusal(f"{reference[:100]!r} refers to nothing")
        return found


def _refusal(problem: str) -> InvalidRequest:
    return InvalidRequest(Reason.INVALID_FIELD, "entry_schema", problem)


def _token(name: str | int) -> str:
    return "/" + str(name).replace("~", "~0").replace("/", "~1")

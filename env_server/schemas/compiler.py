"""JSON Schemas, compiled. Bounded on purpose: a schema comes from a client, and is run on every value of others.

References stay within the document and form no cycle, patterns are matched in linear time, nothing is fetched, formats
are not looked at. With references followed a schema has a known number of parts; parts times the bytes of a value is
the work of checking it, and that is limited.
"""

from typing import Any, Final

import jsonschema_rs

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.ports import Violation
from env_server.model.values import Json, Value, size_of

_VIOLATIONS_MAX: Final = 16
_PATTERN_BYTES_MAX: Final = 1 << 20
_MOVING: Final = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor")
_CHARACTERS_A_PART: Final = 16
"""Texts in a schema, such as patterns, count as so many parts."""


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

    def count(self, part: Any) -> int:
        total = 1
        if isinstance(part, str):
            total += len(part) // _CHARACTERS_A_PART
        elif isinstance(part, list):
            total += sum(map(self.count, part))
        elif isinstance(part, dict):
            for name, value in part.items():
                if name in _MOVING or (name == "$id" and part is not self._document):
                    raise _refusal(f"{name} is not served: refer to parts of the schema by #/...")
                total += self._follow(value) if name == "$ref" and isinstance(value, str) else self.count(value)
        check_count(total, "schema_parts_max", self._limits)
        return total

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
        found = self._document
        for token in reference.split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and token.isdecimal() and int(token) < len(found):
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

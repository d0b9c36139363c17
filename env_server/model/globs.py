"""Shell-style globs over paths and keys, in time linear in the pattern times the text, whatever a client sends.

    *      any run of characters within one segment, also none
    ?      one character within a segment
    [ab-d] one of these, [!ab] one of the others
    **     alone in a segment: any number of whole segments, also none; at the end of a path at least one

So /town/** is all that lies below /town, without /town itself, and /town/**/market includes /town/market.
"""

import re
from collections.abc import Callable
from itertools import takewhile

from env_server.model.errors import InvalidRequest, Reason

TextTest = Callable[[str], object]
"""Truthy for a text that matches."""

_MAGIC = frozenset("*?[")
_DEEP = None


def compile_key_glob(pattern: str, field: str) -> TextTest | None:
    """A test for one segment; None when every text matches.

    Raises:
        InvalidRequest: INVALID_FIELD for a bracket that is not closed, or a `/`.
    """
    if "/" in pattern:
        raise InvalidRequest(Reason.INVALID_FIELD, field, "a key contains no '/'")
    if pattern.strip("*") == "":
        return None
    return _compile_segment(pattern, field)


def compile_path_glob(pattern: str, field: str) -> TextTest | None:
    """A test for whole paths; None when every path matches.

    Raises:
        InvalidRequest: INVALID_FIELD for a pattern that does not begin with `/` or `**`, an empty segment, `**` beside
            other characters, or a bracket that is not closed.
    """
    if pattern in ("**", "/**/*"):
        return None if pattern == "**" else _is_below_root
    segments = _split(pattern, field)
    if _DEEP not in segments and not any(_MAGIC & set(segment or "") for segment in segments):
        return ("/" + "/".join(segment or "" for segment in segments)).__eq__
    tests = [_DEEP if segment is _DEEP else _compile_segment(segment, field) for segment in segments]
    if tests[-1] is _DEEP:  # at least one segment below
        tests[-1:] = [_DEEP, _is_anything]
    return lambda path: _matches(tests, path[1:].split("/") if path != "/" else [])


def find_literal_prefix(pattern: str, field: str) -> str:
    """The deepest path that all matching paths equal or lie below; `/` when there is none."""
    literal = takewhile(lambda segment: segment is not _DEEP and not _MAGIC & set(segment), _split(pattern, field))
    return "/" + "/".join(segment or "" for segment in literal)


def _split(pattern: str, field: str) -> list[str | None]:
    """Segments of a path pattern, `**` as _DEEP; runs of `**` are one."""
    if pattern == "/":
        return []
    if not pattern.startswith(("/", "**")):
        raise InvalidRequest(Reason.INVALID_FIELD, field, "a path glob begins with '/' or '**'")
    segments: list[str | None] = []
    for segment in pattern.removeprefix("/").split("/"):
        if not segment:
            raise InvalidRequest(Reason.INVALID_FIELD, field, "a path has no empty segment")
        if "**" not in segment:
            segments.append(segment)
        elif segment != "**":
            raise InvalidRequest(Reason.INVALID_FIELD, field, "'**' stands alone between slashes")
        elif not segments or segments[-1] is not _DEEP:
            segments.append(_DEEP)
    return segments


def _matches(tests: list[TextTest | None], segments: list[str]) -> bool:
    """Walks both lists once; after a mismatch only the last `**` needs to take in one segment more."""
    at = at_segment = 0
    deep = deep_segment = -1
    while at_segment < len(segments):
        test = tests[at] if at < len(tests) else _is_never
        if test is _DEEP:
            deep, deep_segment = at, at_segment
            at += 1
        elif test(segments[at_segment]):
            at += 1
            at_segment += 1
        elif deep >= 0:
            deep_segment += 1
            at, at_segment = deep + 1, deep_segment
        else:
            return False
    return all(test is _DEEP for test in tests[at:])


def _compile_segment(pattern: str, field: str) -> TextTest:
    if not _MAGIC & set(pattern):
        return pattern.__eq__
    if pattern.strip("*") == "":
        return _is_anything
    # Between two stars the leftmost match of a piece is as good as any, hence atomic groups: no backtracking, so no
    # pattern that takes exponential time.
    head, *pieces = _translate(pattern, field)
    if not pieces:
        return re.compile(head, re.DOTALL).fullmatch
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[:-1] if piece)
    return re.compile(f"{head}{middle}.*{pieces[-1]}", re.DOTALL).fullmatch


def _translate(pattern: str, field: str) -> list[str]:
    """Regular expressions of the pieces between stars."""
    pieces = [""]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "."
        elif character == "[":
            end = pattern.find("]", at + 2 if pattern[at : at + 1] == "!" else at + 1)
            if end < 0:
                raise InvalidRequest(Reason.INVALID_FIELD, field, "has a '[' without ']'")
            pieces[-1] += _translate_class(pattern[at:end], field)
            at = end + 1
        else:
            pieces[-1] += re.escape(character)
    return pieces


def _translate_class(body: str, field: str) -> str:
    negated = body.startswith("!")
    members = body[1:] if negated else body
    safe = re.sub(r"([\\\[\]^&~|])", r"\\\1", members)
    try:
        text = f"[{'^' if negated else ''}{safe}]"
        re.compile(text)
    except re.error:
        raise InvalidRequest(Reason.INVALID_FIELD, field, f"[{body}] is no range of characters") from None
    return text


def _is_anything(text: str) -> bool:
    return True


def _is_never(text: str) -> bool:
    return False


def _is_below_root(path: str) -> bool:
    return path != "/"

"""Shell-style globs over paths and keys, with the meaning that the server's event filters give them.

    *      any run of characters within one segment, also none
    ?      one character within a segment
    [ab-d] one of these, [!ab] one of the others
    **     alone in a segment: any number of whole segments, also none; at the end of a path at least one

So /town/** is all that lies below /town, without /town itself, and /town/**/market includes /town/market. For programs
that sort events which a wider filter let through: both sides agree on every glob, and on what is none.
"""

from __future__ import annotations

import re

__all__ = ["compile_key_glob", "compile_path_glob", "escape_glob", "find_literal_prefix"]

_MAGIC = frozenset("*?[")
_DEEP = "**"
_ONE = "[^/]"
_SEGMENT_ENDS = r"(?=/|\Z)"


def compile_key_glob(glob: str) -> re.Pattern[str]:
    """What the keys that match match fully; "" stands for every key.

    Raises:
        ValueError: a bracket that is not closed, or a `/`.
    """
    if "/" in glob:
        raise ValueError(f"key glob {glob!r}: a key contains no '/'")
    return re.compile(_translate_segment(glob or "*", glob), re.DOTALL)


def escape_glob(text: str) -> str:
    """The glob that this path or key alone matches."""
    return "".join(f"[{sign}]" if sign in _MAGIC else sign for sign in text)


def compile_path_glob(glob: str) -> re.Pattern[str]:
    """What the paths that match match fully.

    Raises:
        ValueError: it does not begin with `/` or `**`, has an empty segment, `**` beside other characters, or a bracket
            that is not closed.
    """
    if glob == _DEEP:
        return re.compile(".*", re.DOTALL)
    segments = _split(glob)
    if not segments:
        return re.compile("/")
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == _DEEP:
            runs.append([])
        else:
            runs[-1].append(f"/(?={_ONE}){_translate_segment(segment, glob)}{_SEGMENT_ENDS}")
    first, *others = ("".join(run) for run in runs)
    if not others:
        return re.compile(first, re.DOTALL)
    # Behind a `**` the first place where the next segments fit is as good as any, hence no way back: time stays linear.
    middle = "".join(f"(?>(?:/[^/]+)*?{run})" for run in others[:-1])
    last = f"(?:/[^/]+)*{others[-1]}" if others[-1] else "(?:/[^/]+)+"
    return re.compile(first + middle + last, re.DOTALL)


def find_literal_prefix(glob: str) -> str:
    """The deepest path that all matching paths equal or lie below; `/` when there is none. Raises ValueError."""
    literal = []
    for segment in _split(glob):
        if segment == _DEEP or _MAGIC & set(segment):
            break
        literal.append(segment)
    return "/" + "/".join(literal)


def _split(glob: str) -> list[str]:
    """Segments of a path glob; runs of `**` are one."""
    if glob == "/":
        return []
    if not glob.startswith(("/", _DEEP)):
        raise ValueError(f"path glob {glob!r} begins neither with '/' nor with '**'")
    segments: list[str] = []
    for segment in glob.removeprefix("/").split("/"):
        if not segment:
            raise ValueError(f"path glob {glob!r} has an empty segment")
        if _DEEP in segment and segment != _DEEP:
            raise ValueError(f"path glob {glob!r}: '**' stands alone between slashes")
        if segment != _DEEP or segments[-1:] != [_DEEP]:
            segments.append(segment)
    return segments


def _translate_segment(segment: str, glob: str) -> str:
    """A regular expression of one segment; between two stars the leftmost match is as good as any."""
    head, *pieces = _translate(segment, glob)
    if not pieces:
        return head
    middle = "".join(f"(?>{_ONE}*?{piece})" for piece in pieces[:-1] if piece)
    return f"{head}{middle}{_ONE}*{pieces[-1]}"


def _translate(segment: str, glob: str) -> list[str]:
    """The pieces between stars."""
    pieces = [""]
    at = 0
    while at < len(segment):
        sign = segment[at]
        at += 1
        if sign == "*":
            pieces.append("")
        elif sign == "?":
            pieces[-1] += _ONE
        elif sign == "[":
            end = segment.find("]", at + 2 if segment[at : at + 1] == "!" else at + 1)
            if end < 0:
                raise ValueError(f"glob {glob!r} has a '[' without ']'")
            pieces[-1] += _translate_class(segment[at:end], glob)
            at = end + 1
        else:
            pieces[-1] += re.escape(sign)
    return pieces


def _translate_class(body: str, glob: str) -> str:
    is_negated = body.startswith("!")
    members = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[1:] if is_negated else body)
    # A range may hold the slash; a segment does not.
    text = f"(?!/)[{'^' if is_negated else ''}{members}]"
    try:
        re.compile(text)
    except re.error:
        raise ValueError(f"glob {glob!r}: [{body}] is no range of characters") from None
    return text

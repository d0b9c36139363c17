"""Names: paths of environments, keys of entries, ids of producers and worlds.

A name that does not obey the rules is refused, never mended: a client that sends decomposed Unicode would otherwise
not find its own entry again.
"""

import re
import unicodedata

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason
from env_server.model.limits import Limits

ROOT = "/"
REQUEST_PREFIX = "request/"
"""Before a request id, where a producer's name stands: no producer's name begins with it."""

QUOTED_CHARS_MAX = 60
"""Of a name in its refusal."""

_WORLD = re.compile(r"[a-z0-9-]{1,40}")
_SNAPSHOT = re.compile(r"[a-z0-9-]{1,80}")
_IDENTITY = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PRODUCER = re.compile(rf"(?!{REQUEST_PREFIX}){_IDENTITY.pattern}(?:/[A-Za-z0-9._-]{{1,16}})?")


def check_segment(text: str, limits: Limits, reason: Reason = Reason.INVALID_KEY, field: str = "key") -> None:
    """Accepts a key or path segment: 1-128 bytes of NFC, no "/" and no control characters.

    Raises:
        InvalidRequest: with `reason` and `field`.
    """
    if text.isascii() and text.isprintable():  # the common case, without building a copy
        if "/" in text or not text:
            empty = "must not end with '/', nor have two in a row" if field == "path" else "must not be empty"
            raise InvalidRequest(reason, field, f"must not contain '/', as {_quote(text)} does" if text else empty)
        length = len(text)
    else:
        if "/" in text:
            raise InvalidRequest(reason, field, f"must not contain '/', as {_quote(text)} does")
        if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text):
            raise InvalidRequest(reason, field, f"must not contain control characters, as {_quote(text)} does")
        if not unicodedata.is_normalized("NFC", text):
            raise InvalidRequest(reason, field, "must be in Unicode normal form C")
        length = len(text.encode())
    if length > limits.segment_bytes_max:
        raise InvalidRequest(reason, field, f"{length} bytes exceed segment_bytes_max = {limits.segment_bytes_max}")


def _quote(text: str) -> str:
    """A name that is refused, in ASCII and of bounded length."""
    return ascii(text if len(text) <= QUOTED_CHARS_MAX else f"{text[:QUOTED_CHARS_MAX]}…")


def split_path(path: str, limits: Limits) -> list[str]:
    """Segments of an absolute path; [] for the root.

    Raises:
        InvalidRequest: INVALID_PATH.
    """
    if path == ROOT:
        return []
    if not path.startswith(ROOT):
        raise InvalidRequest(Reason.INVALID_PATH, "path", "must begin with '/'")
    if len(path) > limits.path_bytes_max or len(path.encode("utf-8", "surrogatepass")) > limits.path_bytes_max:
        raise InvalidRequest(Reason.INVALID_PATH, "path", f"exceeds path_bytes_max = {limits.path_bytes_max}")
    segments = path[1:].split("/")
    if len(segments) > limits.path_depth_max:
        raise InvalidRequest(Reason.INVALID_PATH, "path", f"exceeds path_depth_max = {limits.path_depth_max}")
    for segment in segments:
        check_segment(segment, limits, Reason.INVALID_PATH, "path")
    return segments


def join_path(parent: str, name: str) -> str:
    """Path of the child `name` of `parent`."""
    return ROOT + name if parent == ROOT else f"{parent}/{name}"


def check_identity(text: str, field: str) -> None:
    """Accepts a client or agent id: 1-64 of [A-Za-z0-9._-].

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    if not _IDENTITY.fullmatch(text):
        raise InvalidRequest(Reason.INVALID_FIELD, field, "must be 1-64 characters of [A-Za-z0-9._-]")


def check_producer(text: str, field: str) -> None:
    """Accepts a producer: an id, or an id, a slash and 1-16 more, for one that has several lines of numbers.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    if not _PRODUCER.fullmatch(text):
        problem = "must be 1-64 characters of [A-Za-z0-9._-], with or without '/' and 1-16 more"
        raise InvalidRequest(Reason.INVALID_FIELD, field, problem)


def is_world(name: str) -> bool:
    """Whether a world could have this name; a directory may have others, `lost+found` for one."""
    return _WORLD.fullmatch(name) is not None


def check_world(name: str) -> None:
    """Accepts a world's name: [a-z0-9-]{1,40}.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    if not is_world(name):
        raise InvalidRequest(Reason.INVALID_FIELD, "world", "must be 1-40 characters of [a-z0-9-]")


def is_snapshot(name: str) -> bool:
    """Whether a snapshot could have this name."""
    return _SNAPSHOT.fullmatch(name) is not None


def check_snapshot(name: str) -> None:
    """Accepts a snapshot's name: [a-z0-9-]{1,80}.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    if not is_snapshot(name):
        raise InvalidRequest(Reason.INVALID_FIELD, "snapshot", "must be 1-80 characters of [a-z0-9-]")


def check_count(actual: int, limit: str, limits: Limits) -> None:
    """Refuses more than the limit named `limit` allows.

    Raises:
        LimitExceeded: naming it.
    """
    maximum = getattr(limits, limit)
    if actual > maximum:
        raise LimitExceeded(limit, maximum, actual)

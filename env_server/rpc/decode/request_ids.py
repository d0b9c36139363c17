"""Request ids from the wire: a UUID and a digest of what is asked become the identity of the frame's only op."""

import hashlib
import re
import uuid
from typing import Final

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.frames import Frame
from env_server.model.names import REQUEST_PREFIX

_DIGEST_BYTES: Final = 8
_UUID: Final = re.compile(
    r"(urn:uuid:)?([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})", re.ASCII | re.IGNORECASE
)
"""uuid.UUID takes more: digits of other scripts, signs, underscores, dashes anywhere."""


def name_request(frame: Frame, request_id: str) -> None:
    """Gives the op of a frame of one op the identity of a request.

    Raises:
        InvalidRequest: it is no UUID.
    """
    if _UUID.fullmatch(request_id) is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "caller.request_id", "must be a UUID")
    frame.producers = [REQUEST_PREFIX + str(uuid.UUID(request_id.lower()))]
    frame.producer_seqs = [_digest_of(frame)]
    frame.is_request = True


def _digest_of(frame: Frame) -> int:
    """Equal for equal requests. What is asked consists of plain data, whose repr tells all of it."""
    asked = (frame.paths, frame.keys, frame.codes, frame.arguments, frame.preconditions)
    digest = hashlib.blake2b(repr(asked).encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(digest) or 1

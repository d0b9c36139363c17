"""Lists of what lies in no environment, in pages. A token is the name told last: nothing of a listing is kept."""

from google.protobuf.message import Message

from env_server.model.limits import Limits
from env_server.rpc.decode.ops import read_size


class ServicePage:
    """What still fits into a page: at most so many rows, and at most `page_bytes_max` bytes, but always one row."""

    def __init__(self, limits: Limits, page_size: int) -> None:
        """`page_size` 0 = the default.

        Raises:
            InvalidRequest, LimitExceeded.
        """
        self.rows_max = self._rows_left = read_size(page_size, "page_size", limits) or limits.page_items
        self._bytes_left = limits.page_bytes_max
        self._is_empty = True

    def takes(self, row: Message) -> bool:
        """Whether this row belongs to the page; none does after one that does not."""
        self._rows_left -= 1
        self._bytes_left -= row.ByteSize() + _FRAMING_BYTES
        fits = self._rows_left >= 0 and (self._bytes_left >= 0 or self._is_empty)
        self._is_empty = False
        return fits


_FRAMING_BYTES = 8
"""Of a row in a repeated field."""

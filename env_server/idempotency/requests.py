"""Request ids: bare UUIDs of simple callers, remembered for a window.

A request id is kept as a producer that asks once: its name is the id behind a prefix that no producer can have, and its
number the digest of what was asked, so that log and tables need nothing of their own. Only the window is here.
"""

from collections import deque
from collections.abc import Callable

from env_server.idempotency.producers import Producers
from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import REQUEST_PREFIX
from env_server.model.ports import ProducerMark


class RequestIds:
    """The window of one world: the last `request_ids_max`, none older than `request_id_age_s`.

    After a restart, ids that it finds count from then.
    """

    def __init__(self, producers: Producers, limits: Limits, monotonic_ns: Callable[[], int]) -> None:
        self._producers = producers
        self._max = limits.request_ids_max
        self._age_ns = int(limits.request_id_age_s * 1e9)
        self._monotonic_ns = monotonic_ns
        now = monotonic_ns()
        #: Digest of each, and all in the order of their ages.
        self._digests = {name: mark[0] for name, mark in producers.marks.items() if name.startswith(REQUEST_PREFIX)}
        self._ages: deque[tuple[int, str]] = deque((now, name) for name in self._digests)
        self._forget(now)

    def __len__(self) -> int:
        return len(self._digests)

    def recognise(self, name: str, digest: int) -> ProducerMark | None:
        """What came of the request before; None when it is new, has no outcome yet, or had one that passes by itself.

        Raises:
            InvalidRequest: REQUEST_ID_REUSED for another request under the same id.
        """
        now = self._monotonic_ns()
        known = self._digests.get(name)
        if known is None:
            self._digests[name] = digest
            self._ages.append((now, name))
        self._forget(now)
        if known is not None and known != digest and name in self._digests:
            problem = "names another request than before"
            raise InvalidRequest(Reason.REQUEST_ID_REUSED, "caller.request_id", problem)
        return self._producers.marks.get(name)

    def _forget(self, now_ns: int) -> None:
        ages = self._ages
        while ages and (len(ages) > self._max or now_ns - ages[0][0] > self._age_ns):
            _, name = ages.popleft()
            del self._digests[name]
            self._producers.forget(name)

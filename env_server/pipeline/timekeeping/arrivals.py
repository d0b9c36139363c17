"""Who waits until a clock has arrived where it was to go."""

from collections.abc import Callable

from env_server.pipeline.timekeeping.clocks import Clocks
from env_server.timeline.timeline import Timeline


class Arrivals:
    """Calls that wait, by the number of their clock."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._calls: dict[int, list[Callable[[], None]]] = {}
        self._has_ended = False

    def when(self, timeline: Timeline, call: Callable[[], None]) -> None:
        """Calls when the clock is on no way any more, or gone, or when all ends; at once when it is."""
        if self._has_ended or not timeline.is_under_way or not self._clocks.lives(timeline):
            call()
        else:
            self._calls.setdefault(timeline.number, []).append(call)

    def forget(self, timeline: Timeline, call: Callable[[], None]) -> None:
        """Nobody waits for this call any more."""
        waiting = self._calls.get(timeline.number, [])
        if call in waiting:
            waiting.remove(call)

    def tell(self) -> None:
        """Calls those whose clock has arrived since, or is gone."""
        for number, waiting in list(self._calls.items()):
            timeline = self._clocks.by_number.get(number)
            if timeline is None or not timeline.is_under_way:
                del self._calls[number]
                for call in waiting:
                    call()

    def end(self) -> None:
        """Nobody arrives any more: calls all of them."""
        self._has_ended = True
        ended, self._calls = self._calls, {}
        for waiting in ended.values():
            for call in waiting:
                call()

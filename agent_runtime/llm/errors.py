"""Why a model gave no usable answer.

    ModelError
    ├── ModelParseError          parse_error   answered, but not in the shape that was asked for
    ├── ModelTruncatedError      truncated     cut off at max_tokens before the answer was complete
    ├── ModelRefusedError        refused       the model or a filter declined
    ├── ModelTimeoutError        timeout       no answer in time                       (transient)
    ├── ModelUnavailableError    error         429, 5xx, connection lost, garbage body (transient)
    ├── ModelBrokenError         error         every endpoint fails or is busy, and none is asked in time
    ├── ModelCancelledError      cancelled     nobody waits for the answer any more; never raised, only recorded
    ├── ModelEndpointError       error         the endpoint will never accept this request
    ├── ModelRateError           error         asks for more at once than the model's limits allow in a minute
    ├── ModelHistoryError        error         the conversation is none that an endpoint accepts
    ├── ModelReplayError         error         nothing recorded fits the request; says what differs
    └── ModelSetupError          error         package, key, address or weights are missing or wrong

Every message is one line of bounded length, holds neither the conversation nor the answer, and has
what looks like a key blotted out. The answer itself stays in `.text`, for records.
"""

from __future__ import annotations

import re
from typing import ClassVar

PROBLEM_CHARS_MAX = 240
_KEY_LIKE = re.compile(r"\b(?:sk|pk|key|token)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.IGNORECASE)


def one_line(text: str, chars_max: int = PROBLEM_CHARS_MAX) -> str:
    """Returns `text` as one line of at most `chars_max` characters, with likely secrets blotted out."""
    # Cut twice: a body of megabytes need not be scanned, and no key may survive being halved.
    line = _KEY_LIKE.sub("[hidden]", " ".join(text[: 4 * chars_max].split()))
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


class ModelError(Exception):
    """Base of all failures of a model call.

    Attributes:
        status: the turn status that this failure gives (class attribute).
        transient: whether the same call may succeed later (class attribute).
        model: the model that was asked.
        text: the last answer, in full; empty when there was none.
        attempts, prompt_tokens, completion_tokens, microdollars, latency_ms: what the question had cost
            when it was given up, set by the gateway; 0 on an error that did not pass a gateway.
    """

    status: ClassVar[str] = "error"
    transient: ClassVar[bool] = False

    def __init__(self, model: str, problem: str, *, text: str = "") -> None:
        self.model = model
        self.text = text
        self.attempts = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.microdollars = 0
        self.latency_ms = 0.0
        super().__init__(f"{model}: {one_line(problem)}")


class ModelParseError(ModelError):
    """The answer holds no JSON object of the type that was asked for; `.problem` says what is wrong."""

    status = "parse_error"

    def __init__(self, model: str, problem: str, *, text: str = "") -> None:
        self.problem = one_line(problem)
        super().__init__(model, self.problem, text=text)


class ModelTruncatedError(ModelError):
    """The answer was cut off at `max_tokens` before it was complete."""

    status = "truncated"

    def __init__(self, model: str, max_tokens: int, *, text: str = "") -> None:
        self.max_tokens = max_tokens
        super().__init__(model, f"answer cut off at {max_tokens} tokens", text=text)


class ModelRefusedError(ModelError):
    """The model, or a content filter before or behind it, declined to answer."""

    status = "refused"

    def __init__(self, model: str, *, text: str = "") -> None:
        super().__init__(model, "refused to answer", text=text)


class ModelTimeoutError(ModelError):
    """One call took longer than `timeout_s` seconds. The request upstream has been closed."""

    status = "timeout"
    transient = True

    def __init__(self, model: str, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        super().__init__(model, f"no answer within {timeout_s:g} s")


class ModelUnavailableError(ModelError):
    """The endpoint cannot serve the call now.

    Attributes:
        endpoint: host and port, without credentials.
        http_status: None when the connection failed before or after the status line.
        retry_after_s: seconds the endpoint asked to wait, None if it did not say.
    """

    transient = True

    def __init__(
        self,
        model: str,
        endpoint: str,
        cause: str,
        *,
        http_status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.http_status = http_status
        self.retry_after_s = retry_after_s
        code = "" if http_status is None else f"HTTP {http_status}: "
        super().__init__(model, f"{endpoint}: {code}{cause}")


class ModelBrokenError(ModelError):
    """Every endpoint of the model has failed again and again or wants to be left alone; the next one is asked only in
    `wait_s` seconds."""

    def __init__(self, model: str, endpoints: tuple[str, ...], wait_s: float) -> None:
        self.endpoints = endpoints
        self.wait_s = wait_s
        super().__init__(
            model, f"{', '.join(endpoints)}: failed again and again or busy, not asked for another {wait_s:.0f} s"
        )


class ModelCancelledError(ModelError):
    """The asker was cancelled: its turn was over or stopped. Tells what the question had cost; nobody is raised it."""

    status = "cancelled"

    def __init__(self, model: str) -> None:
        super().__init__(model, "cancelled before it was answered")


class ModelEndpointError(ModelError):
    """The endpoint refused the request for good (HTTP 4xx); the same request is never sent again."""

    def __init__(self, model: str, endpoint: str, http_status: int, reason: str) -> None:
        self.endpoint = endpoint
        self.http_status = http_status
        super().__init__(model, f"{endpoint}: HTTP {http_status}: {reason}")


class ModelRateError(ModelError):
    """One request that needs more than the model's limits allow in a whole minute; waiting would not help."""

    def __init__(self, model: str, tokens: int, tokens_per_minute: int) -> None:
        self.tokens = tokens
        self.tokens_per_minute = tokens_per_minute
        super().__init__(model, f"one request may take {tokens} tokens, more than the {tokens_per_minute} of a minute")


class ModelHistoryError(ModelError):
    """Messages that every endpoint would refuse; nothing has been sent. `place` counts them from 0."""

    def __init__(self, model: str, place: int, problem: str) -> None:
        self.place = place
        self.problem = one_line(problem)
        super().__init__(model, f"message {place} of the conversation: {self.problem}")


class ModelReplayError(ModelError):
    """A request for which nothing is recorded.

    Attributes:
        agent_id, turn, call: which question it is.
        differences: what is not as recorded, such as `temperature` or `message 1`; empty when the question
            itself was never recorded.
    """

    def __init__(self, model: str, agent_id: str, turn: int, call: int, differences: tuple[str, ...]) -> None:
        self.agent_id = agent_id
        self.turn = turn
        self.call = call
        self.differences = differences
        what = f"the request is not the recorded one: {'; '.join(differences)}" if differences else "never recorded"
        super().__init__(model, f"call {call} of turn {turn} of {agent_id}: {what}")


class ModelSetupError(ModelError):
    """The provider cannot start: the message says what is missing and how to get it."""

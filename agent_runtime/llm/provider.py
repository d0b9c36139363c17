"""The one protocol behind which all models stand."""

from __future__ import annotations

from typing import Protocol

from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode


class Provider(Protocol):
    """A source of completions. `agent_runtime.llm.testing.check_llm_provider` is its executable definition."""

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        """Makes one call, without retrying, and returns the answer unread.

        `mode` says how to ask for the shape of `request.answer_type`. Cancelling the call gives up
        the work upstream (an HTTP request is closed) and leaves the provider usable. Any number of
        calls may run in parallel; the gateway bounds them.

        Raises:
            ModelUnavailableError, ModelTimeoutError: the call may succeed later.
            ModelEndpointError: the request, or this mode, will never be accepted (the gateway tries
                the next mode of an answer type for which none has worked yet).
            ModelRefusedError: declined by the endpoint before a model saw it.
        """
        ...

    async def aclose(self) -> None:
        """Releases connections, processes and memory. Calls in flight fail. May be called twice."""
        ...

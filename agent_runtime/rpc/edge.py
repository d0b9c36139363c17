"""The one place of a node where an exception becomes a status.

What the node refuses reaches the caller as it is, what the world refused by the world's reason. Anything else is a
defect: the caller gets an incident id, the log the rest.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import grpc
from ecumene.client import EcumeneError
from google.protobuf.message import DecodeError, Message

from agent_runtime.model.json_texts import read_json
from agent_runtime.model.refusals import NodeError, Refusal, refuse_field
from agent_runtime.node.interventions import refuse_by_world
from agent_runtime.rpc.errors import CODE_OF, DETAILS_KEY, MESSAGE_BYTES_MAX, encode_status, shorten

logger = logging.getLogger("ecumene.runtime")

Context = grpc.aio.ServicerContext
M = TypeVar("M", bound=Message)
Q = TypeVar("Q")
R = TypeVar("R")


def guard(handler: Callable[[Q, Context], Awaitable[R]]) -> Callable[[Q, Context], Awaitable[R]]:
    """The handler, with its exceptions turned into statuses."""

    async def guarded(request: Q, context: Context) -> R:
        try:
            return await handler(request, context)
        except NodeError as error:
            await abort(context, error)
        except EcumeneError as error:
            await abort(context, refuse_by_world(error))
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception as defect:  # noqa: BLE001 - the edge: nothing of it may reach a client
            if context.done():  # the peer went away in the middle of a write
                raise asyncio.CancelledError from None
            await abort(context, report_defect(defect))

    return guarded


async def abort(context: Context, error: NodeError) -> NoReturn:
    """End the call with the error's status. Raises grpc.aio.AbortError, always."""
    message = shorten(error.message, MESSAGE_BYTES_MAX)
    await context.abort(CODE_OF[error.reason], message, ((DETAILS_KEY, encode_status(error)),))


def report_defect(defect: BaseException) -> NodeError:
    """Log a defect under a new incident id; the error carries the id alone."""
    incident = secrets.token_hex(8)
    logger.error("incident %s", incident, exc_info=defect)
    return NodeError(Refusal.INTERNAL, f"internal error, incident {incident}", incident=incident)


def parse(message_type: type[M], data: bytes) -> M:
    """The message in `data`. Raises NodeError: MALFORMED_MESSAGE."""
    try:
        return message_type.FromString(data)
    except DecodeError:
        name = message_type.DESCRIPTOR.name
        raise NodeError(Refusal.MALFORMED_MESSAGE, f"{name} is not such a protobuf message") from None


def parse_json(data: bytes, field: str) -> Any:
    """A JSON value. Raises NodeError: INVALID_FIELD."""
    try:
        return read_json(data)
    except ValueError:
        raise refuse_field(field, "is no JSON") from None

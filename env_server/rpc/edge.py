"""The one place where an exception becomes a status.

What is a WorldError reaches the caller as it is. Anything else is a defect of ours: the caller gets an incident id, the
log the rest. A cancelled call stays cancelled.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from env_server.model.errors import InternalError, InvalidRequest, Reason, WorldError
from env_server.rpc.encode.errors import CODE_OF, DETAILS_KEY, MESSAGE_BYTES_MAX, encode_status, shorten

_log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext
Handler = Callable[[bytes, Context], Awaitable[bytes]]
Stream = Callable[[object, Context], Awaitable[None]]
NewIncident = Callable[[], str]

M = TypeVar("M", bound=Message)
R = TypeVar("R")
Q = TypeVar("Q")


def draw_incident() -> str:
    """A fresh incident id."""
    return secrets.token_hex(8)


def guard(
    handler: Callable[[Q, Context], Awaitable[R]], new_incident: NewIncident
) -> Callable[[Q, Context], Awaitable[R]]:
    """The handler, with its exceptions turned into statuses."""

    async def guarded(request: Q, context: Context) -> R:
        try:
            return await handler(request, context)
        except WorldError as error:
            await abort(context, error)
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception as defect:  # noqa: BLE001 - the edge: nothing of it may reach a client
            if context.done():  # the peer went away in the middle of a write
                raise asyncio.CancelledError from None
            await abort(context, report_defect(defect, new_incident))

    return guarded


async def abort(context: Context, error: WorldError) -> NoReturn:
    """Ends the call with the error's status.

    Raises:
        grpc.aio.AbortError: always.
    """
    await context.abort(
        CODE_OF[error.reason],
        shorten(error.message, MESSAGE_BYTES_MAX),
        ((DETAILS_KEY, encode_status(error)),),
    )


def report_defect(defect: BaseException, new_incident: NewIncident) -> InternalError:
    """Logs a defect under a new incident id; the error carries the id alone."""
    incident = new_incident()
    _log.error("incident %s", incident, exc_info=defect)
    return InternalError(incident)


def parse(message_type: type[M], data: bytes) -> M:
    """The message in `data`.

    Raises:
        InvalidRequest: MALFORMED_MESSAGE.
    """
    try:
        return message_type.FromString(data)
    except DecodeError:
        name = message_type.DESCRIPTOR.name
        raise InvalidRequest(Reason.MALFORMED_MESSAGE, name, "is not such a protobuf message") from None

"""What all responses share: where the world stood, and the largest that a message may be."""

from env_api.v1 import environment_service_pb2
from google.protobuf.message import Message

from env_server.model.errors import LimitExceeded
from env_server.model.limits import Limits
from env_server.model.ports import Origin
from env_server.pipeline import World


def encode_header(world: World, revision: int = 0) -> environment_service_pb2.Header:
    """The header of an answer that rests on everything up to `revision`; 0 = the durable one."""
    return environment_service_pb2.Header(
        world=world.name, history=world.history, revision=revision or world.durable_revision
    )


def encode_moment(moment: Origin) -> environment_service_pb2.Header:
    """The header of an answer about a world as it stood at a moment."""
    return environment_service_pb2.Header(world=moment.world, history=moment.history, revision=moment.revision)


def encode_bounded(response: Message, limits: Limits) -> bytes:
    """A response that grows with what there is in the world.

    Raises:
        LimitExceeded: message_bytes_max.
    """
    encoded = response.SerializeToString()
    if len(encoded) > limits.message_bytes_max:
        raise LimitExceeded("message_bytes_max", limits.message_bytes_max, len(encoded))
    return encoded

"""Who asks, in a call of one op."""

from env_api.v1 import environment_service_pb2 as service_pb2

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.frames import Frame
from env_server.model.limits import Limits
from env_server.model.names import check_identity, check_producer
from env_server.model.views import check_group
from env_server.rpc.decode.frames import check_cause
from env_server.rpc.decode.request_ids import name_request


def decode_caller(caller: service_pb2.Caller, frame: Frame, limits: Limits) -> None:
    """Who asks, from the wire: identity, group, actor and cause of the frame's only op.

    Raises:
        InvalidRequest, LimitExceeded.
    """
    if caller.client_id:
        check_identity(caller.client_id, "caller.client_id")
        frame.sender = caller.client_id
    if caller.group:
        check_group(caller.group, limits, "caller.group")
        frame.groups = [caller.group]
    if bool(caller.producer) != bool(caller.producer_seq):
        raise InvalidRequest(Reason.INVALID_FIELD, "caller.producer", "producer and producer_seq go together")
    if caller.producer:
        check_producer(caller.producer, "caller.producer")
        frame.producers, frame.producer_seqs = [caller.producer], [caller.producer_seq]
    if caller.request_id:
        if caller.producer:
            raise InvalidRequest(
                Reason.INVALID_FIELD, "caller.request_id", "is the identity of callers without a producer"
            )
        name_request(frame, caller.request_id)
    if caller.actor:
        check_identity(caller.actor, "caller.actor")
        frame.actors = [caller.actor]
    if caller.cause:
        check_cause(caller.cause)
        frame.causes = [caller.cause]

"""What is asked of subscriptions, from the wire."""

from env_api.v1 import subscription_service_pb2

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_identity, check_segment
from env_server.model.subscriptions import CreateSubscription
from env_server.rpc.decode.watches import decode_filter


def decode_create(message: subscription_service_pb2.CreateSubscriptionRequest, limits: Limits) -> CreateSubscription:
    """CREATE_SUBSCRIPTION; `exclude_own` leaves out what the caller's producer causes.

    Raises:
        InvalidRequest, LimitExceeded, NotSupported: naming the field.
    """
    check_name(message.name, limits)
    check_count(message.partitions, "subscription_partitions_max", limits)
    timeout_ms = message.ack_timeout_ms or limits.ack_timeout_ms
    if not limits.ack_timeout_ms_min <= timeout_ms <= limits.ack_timeout_ms_max:
        problem = f"must be 0 or from {limits.ack_timeout_ms_min} to {limits.ack_timeout_ms_max}"
        raise InvalidRequest(Reason.INVALID_FIELD, "ack_timeout_ms", problem)
    return CreateSubscription(
        message.name,
        decode_filter(message.filter, message.caller.producer, limits),
        message.partitions or 1,
        timeout_ms,
        message.max_lag or limits.subscription_lag_revisions,
        message.from_revision,
        message.caller.group,
        message.if_absent,
    )


def decode_consume(message: subscription_service_pb2.ConsumeRequest, limits: Limits) -> int:
    """Events that may be outstanding; 0 = the default.

    Raises:
        InvalidRequest, LimitExceeded.
    """
    check_name(message.name, limits)
    check_identity(message.consumer, "consumer")
    check_count(message.outstanding_max, "outstanding_events_max", limits)
    return message.outstanding_max


def check_name(name: str, limits: Limits) -> None:
    """Accepts the name of a subscription.

    Raises:
        InvalidRequest.
    """
    check_segment(name, limits, Reason.INVALID_FIELD, "name")

"""Workflows: one central script with plain classes, run here or distributed over hosts, with equal results.

    from ecumene import workflows

    class Debater(workflows.Actor): ...

    with workflows.connect("127.0.0.1:7170"):           # or workflows.local(): nothing else changes
        ann, bob = Debater("Ann").to_dist(), Debater("Bob").to_dist()
        claim = ann.open("tea is better than coffee")   # a placeholder, at once
        reply = bob.answer(claim)                       # goes on as soon as `claim` is there
        print(reply)                                    # waits

Calls return placeholders at once; only the call that needs a value waits for it, so that calls which do not depend on
each other run side by side.
"""

from ecumene.workflows.actors import Actor
from ecumene.workflows.call_table import FlowStatistics
from ecumene.workflows.errors import (
    CallFailedError,
    CallRefusedError,
    CallTimeoutError,
    CircularWaitError,
    EffectsConflictError,
    Failure,
    FlowFullError,
    FlowLostError,
    HostLostError,
    NoHostError,
    NoWorldError,
    Origin,
    ResultExpiredError,
    ResultLostError,
    ValueRefusedError,
    ValueTooLargeError,
    WaitLimitError,
    WorkflowError,
)
from ecumene.workflows.flows import Flow, connect, local, spawn
from ecumene.workflows.limits import INLINE_BYTES_MAX, VALUE_BYTES_MAX, FlowLimits, StageLimits
from ecumene.workflows.patterns import fan_in, fan_out, gather, resolve, sequential
from ecumene.workflows.placeholders import Placeholder
from ecumene.workflows.proxies import Proxy
from ecumene.workflows.values import message

__all__ = [
    "INLINE_BYTES_MAX",
    "VALUE_BYTES_MAX",
    "Actor",
    "CallFailedError",
    "CallRefusedError",
    "CallTimeoutError",
    "CircularWaitError",
    "EffectsConflictError",
    "Failure",
    "Flow",
    "FlowFullError",
    "FlowLimits",
    "FlowLostError",
    "FlowStatistics",
    "HostLostError",
    "NoHostError",
    "NoWorldError",
    "Origin",
    "Placeholder",
    "Proxy",
    "ResultExpiredError",
    "ResultLostError",
    "StageLimits",
    "ValueRefusedError",
    "ValueTooLargeError",
    "WaitLimitError",
    "WorkflowError",
    "connect",
    "fan_in",
    "fan_out",
    "gather",
    "local",
    "message",
    "resolve",
    "sequential",
    "spawn",
]

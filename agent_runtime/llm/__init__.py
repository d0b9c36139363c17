"""Models: one question in, one typed answer or one typed error out.

`Gateway.ask` is the way in. `errors` draws the tree of what can go wrong, `provider.Provider` is what
a model has to be, `providers/` holds those that exist, and `latency.SimulatedLatency` is the thinking
time of agents that ask no model.
"""

from agent_runtime.llm.errors import (
    ModelEndpointError,
    ModelError,
    ModelParseError,
    ModelRefusedError,
    ModelSetupError,
    ModelTimeoutError,
    ModelTruncatedError,
    ModelUnavailableError,
)
from agent_runtime.llm.gateway import Gateway, GatewayStatistics
from agent_runtime.llm.provider import Provider
from agent_runtime.llm.requests import Answer, Completion, Message, ModelRequest, SchemaMode

__all__ = [
    "Answer",
    "Completion",
    "Gateway",
    "GatewayStatistics",
    "Message",
    "ModelEndpointError",
    "ModelError",
    "ModelParseError",
    "ModelRefusedError",
    "ModelRequest",
    "ModelSetupError",
    "ModelTimeoutError",
    "ModelTruncatedError",
    "ModelUnavailableError",
    "Provider",
    "SchemaMode",
]

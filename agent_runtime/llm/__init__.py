"""Models: one question in, one typed answer or one typed error out.

`Gateway.ask` is the way in. On it a question passes

    queue ─► admission ─► endpoints ─► providers ─► answers ─► Answer
             limits and   least load,  the model    shape, reading,
             budgets      health                    repair, second call

`requests` holds the words, `errors` draws the tree of what can go wrong, `spending` counts, `records` replays what was
recorded and keeps answers for identical requests. `provider.Provider` is what a model has to be. Beside that:
`prompts` builds messages whose beginning is shared, `latency` is the thinking time of agents that ask no model.
"""

from agent_runtime.llm.errors import (
    ModelBrokenError,
    ModelEndpointError,
    ModelError,
    ModelHistoryError,
    ModelParseError,
    ModelRateError,
    ModelRefusedError,
    ModelReplayError,
    ModelSetupError,
    ModelTimeoutError,
    ModelTruncatedError,
    ModelUnavailableError,
)
from agent_runtime.llm.gateway import Gateway
from agent_runtime.llm.provider import Provider
from agent_runtime.llm.requests import Answer, Completion, Message, ModelRequest, SchemaMode, Tool, ToolCall
from agent_runtime.llm.statistics import GatewayStatistics

__all__ = [
    "Answer",
    "Completion",
    "Gateway",
    "GatewayStatistics",
    "Message",
    "ModelBrokenError",
    "ModelEndpointError",
    "ModelError",
    "ModelHistoryError",
    "ModelParseError",
    "ModelRateError",
    "ModelRefusedError",
    "ModelReplayError",
    "ModelRequest",
    "ModelSetupError",
    "ModelTimeoutError",
    "ModelTruncatedError",
    "ModelUnavailableError",
    "Provider",
    "SchemaMode",
    "Tool",
    "ToolCall",
]

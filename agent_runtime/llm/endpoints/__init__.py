"""Where calls go: endpoints with their load and health, and the choice among them."""

from agent_runtime.llm.endpoints.breaker import Breaker, BreakerState
from agent_runtime.llm.endpoints.endpoint import Endpoint
from agent_runtime.llm.endpoints.pool import Pool

__all__ = ["Breaker", "BreakerState", "Endpoint", "Pool"]

"""What can go wrong in a runtime.

    AgentRuntimeError
    ├── LaunchError            the launch description cannot be run; says where and what
    ├── ActionRefusedError     an action of a turn is impossible; raised to the agent, with the reason
    ├── PartHeldError          a part that somebody else owns, for longer than was waited
    ├── BudgetExceededError    tokens or money that may be spent are spent; no further question is asked
    ├── WorkerEndedError       a worker process ended without being asked to
    ├── CommandError           a worker cannot do what its daemon told it; the message is the worker's
    └── NodeError              what a node refuses; see `model.refusals`

What a model call can raise stands in `agent_runtime.llm.errors`, what the world can answer in `ecumene.client`.
"""

from __future__ import annotations


class AgentRuntimeError(Exception):
    """Root of what a runtime raises on purpose; `str()` is one line."""


class LaunchError(AgentRuntimeError):
    """A launch description that cannot be run; `where` is a place in it, such as `groups.miners.agent`."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = " ".join(problem.split())
        super().__init__(f"{where}: {self.problem}" if where else self.problem)


class ActionRefusedError(AgentRuntimeError):
    """An action that the world cannot take. Nothing of the turn has been sent; the agent may decide again."""

    def __init__(self, action: str, problem: str) -> None:
        self.action = action
        self.problem = problem
        super().__init__(f"action {action!r}: {problem}")


class BudgetExceededError(AgentRuntimeError):
    """What may be spent is spent, or what is left does not pay for one more call.

    Attributes:
        whose: what the budget is of: a model, `run`, or `turn`.
        spent, maximum: in `unit`, which is `tokens` or `microdollars`.
        attempts, prompt_tokens, completion_tokens, microdollars: what the question had cost when it was given up.
    """

    def __init__(self, whose: str, spent: int, maximum: int, unit: str = "tokens") -> None:
        self.whose = whose
        self.spent = spent
        self.maximum = maximum
        self.unit = unit
        self.attempts = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.microdollars = 0
        super().__init__(f"{whose}: {spent} of {maximum} {unit} are spent")


class PartHeldError(AgentRuntimeError):
    """A part is somebody else's."""

    def __init__(self, part: str, waited_s: float) -> None:
        self.part = part
        waited = f", and was for {waited_s:g} s" if waited_s else ""
        super().__init__(f"part {part} is held by another worker{waited}")


class WorkerEndedError(AgentRuntimeError):
    """A worker ended by itself; `problem` is the reason that it gave, or how its process ended."""

    def __init__(self, worker: int, problem: str) -> None:
        self.worker = worker
        self.problem = " ".join(problem.split())
        super().__init__(f"worker {worker}: {self.problem}")


class CommandError(AgentRuntimeError):
    """A worker cannot do a command; the message is its own, in one line.

    `may_pass`: the same command may succeed later, as after an outage of the world.
    """

    def __init__(self, problem: str, *, may_pass: bool = False) -> None:
        self.may_pass = may_pass
        super().__init__(" ".join(problem.split()))

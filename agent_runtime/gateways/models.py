"""A model as turns ask it, and which of several an agent asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_runtime.gateways.endpoints import bound_calls
from agent_runtime.gateways.limits import RATE_LIMITS, take_part
from agent_runtime.llm import Gateway, ModelSetupError
from agent_runtime.llm.admission import Budget, RateWindow, SharedBudget, SharedWindow
from agent_runtime.llm.settings import ModelMix, ModelSettings
from agent_runtime.llm.spending import Tally
from agent_runtime.model.draws import Draw
from agent_runtime.model.errors import BudgetExceededError

MIX_STREAM = 33


@dataclass(frozen=True, slots=True)
class Model:
    """A gateway, its settings, and what was spent by it and the others of this worker."""

    name: str
    gateway: Gateway
    settings: ModelSettings
    tally: Tally
    budgets: tuple[Budget | SharedBudget, ...] = ()
    """What its calls are paid from: the model's own, if there is one, and the run's."""
    windows: tuple[RateWindow | SharedWindow, ...] = ()
    """Limits of a minute."""

    def widen(self, share: float) -> None:
        """Take a larger part of the node's bounds than before, now that more of those who ask live here.

        Budgets without quota stay as they were shared out.
        """
        settings = self.settings
        own = [endpoint.in_flight_max for endpoint in settings.endpoints] or [None] * self.gateway.endpoints
        self.gateway.widen([bound_calls(settings, most, share) for most in own], round(settings.queue_max * share))
        rates = {limit: getattr(settings, limit) for limit in RATE_LIMITS}
        for window in self.windows:
            if isinstance(window, RateWindow):
                window.widen(**{limit: take_part(self.name, limit, value, share) for limit, value in rates.items()})

    @property
    def is_exhausted(self) -> bool:
        """Whether a budget has refused a call."""
        return self.refusal is not None

    @property
    def refusal(self) -> BudgetExceededError | None:
        """Why a budget has refused a call, or held it back."""
        return next((budget.refusal for budget in self.budgets if budget.refusal is not None), None)


class ModelChoice:
    """Which model each agent of a group asks."""

    def __init__(self, models: Mapping[str, Model], choice: str | ModelMix | None, seed: int) -> None:
        self._models = models
        self._mix = choice if isinstance(choice, ModelMix) else None
        self._only = models.get(choice) if isinstance(choice, str) else None
        self._seed = seed

    def find(self, agent_id: str, profile: Mapping[str, Any]) -> Model | None:
        """The model of an agent, the same in every turn and worker; None if it has none."""
        if self._mix is None:
            return self._only
        return self._models[choose_model(self._mix, agent_id, profile, self._seed)]


def choose_model(mix: ModelMix, agent_id: str, profile: Mapping[str, Any], seed: int) -> str:
    """The name of an agent's model. Raises ModelSetupError if no model is assigned to its attribute."""
    if mix.attribute is not None:
        value = profile.get(mix.attribute)
        name = mix.assigned.get(str(value), mix.otherwise)
        if name is None:
            raise ModelSetupError("none", f"no model is assigned to {mix.attribute} {value!r}")
        return name
    point = Draw(seed, agent_id, 0, 0, MIX_STREAM).random() * sum(mix.weights.values())
    names = sorted(name for name, weight in mix.weights.items() if weight > 0)
    for name in names:
        point -= mix.weights[name]
        if point < 0:
            return name
    return names[-1]

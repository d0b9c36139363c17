"""Who may ask when: a bounded queue, limits of a minute, budgets, and the choice of an endpoint.

`Dispatch` is where calls wait for their turn. It asks `Limit`s whether one more call may pass: `RateWindow`
(requests and tokens a minute, of this gateway), `Budget` (what may be spent in all), or `SharedWindow` and
`SharedBudget` where several nodes share one limit by `QuotaShares`.
"""

from agent_runtime.llm.admission.budgets import Budget
from agent_runtime.llm.admission.dispatch import Dispatch
from agent_runtime.llm.admission.limits import Limit, Load, Permit
from agent_runtime.llm.admission.quota_shares import QuotaRefusedError, QuotaShares, QuotaUnavailableError, Share, Want
from agent_runtime.llm.admission.rate_window import RateWindow
from agent_runtime.llm.admission.shared_budget import SharedBudget
from agent_runtime.llm.admission.shared_window import SharedWindow

__all__ = [
    "Budget",
    "Dispatch",
    "Limit",
    "Load",
    "Permit",
    "QuotaRefusedError",
    "QuotaShares",
    "QuotaUnavailableError",
    "RateWindow",
    "Share",
    "SharedBudget",
    "SharedWindow",
    "Want",
]

"""What calls cost: prices, and sums by model and phase. Money is whole microdollars, millionths of a dollar."""

from agent_runtime.llm.spending.prices import FREE, Price
from agent_runtime.llm.spending.tally import Spent, Tally

__all__ = ["FREE", "Price", "Spent", "Tally"]

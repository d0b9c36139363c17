"""What calls may cost before they are made, and what they did cost."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from pydantic import BaseModel
from pydantic_core import to_json

from agent_runtime.llm.admission import Load
from agent_runtime.llm.answers import answer_schema
from agent_runtime.llm.errors import ModelEndpointError, ModelError, ModelUnavailableError
from agent_runtime.llm.questions import Question
from agent_runtime.llm.requests import Completion, ModelRequest
from agent_runtime.llm.spending import FREE, Price
from agent_runtime.llm.tokens import TokenEstimator, estimate_prompt_tokens, estimate_text_tokens
from agent_runtime.model.errors import BudgetExceededError

NO_LOAD = Load()


class CallCosts:
    """Estimates and counts of one model. Without limits (`is_estimated` False) nothing is estimated in advance."""

    def __init__(self, price: Price, *, is_estimated: bool) -> None:
        self._price = price if price.prompt or price.completion else FREE
        self._is_estimated = is_estimated
        self._estimator = TokenEstimator()
        self.calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.microdollars = 0

    def estimate_prompt_tokens(self, request: ModelRequest) -> int:
        """Tokens that a request will take to send."""
        return self._estimator.correct(count_by_rule(request))

    def estimate(self, question: Question) -> Load:
        """What the next call of a question may cost at most: its prompt as estimated, and `max_tokens`.

        Raises:
            BudgetExceededError: more than is left of what the question may take in all.
        """
        request = question.dialogue.request
        if not self._is_estimated and request.tokens_max is None:
            return NO_LOAD
        question.prompt_tokens_by_rule = count_by_rule(request)
        prompt_tokens = self._estimator.correct(question.prompt_tokens_by_rule)
        completion_tokens = request.max_tokens
        if request.tokens_max is not None:
            spent = question.prompt_tokens + question.completion_tokens
            completion_tokens = min(completion_tokens, request.tokens_max - spent - prompt_tokens)
            if completion_tokens < 1:
                raise BudgetExceededError("what is left of the turn", spent, request.tokens_max)
        return Load(prompt_tokens + completion_tokens, self._price.count_microdollars(prompt_tokens, completion_tokens))

    def bound(self, question: Question, request: ModelRequest) -> ModelRequest:
        """The request, with no more tokens for the answer than the question may still take."""
        if request.tokens_max is None:
            return request
        spent = question.prompt_tokens + question.completion_tokens
        left = request.tokens_max - spent - self._estimator.correct(question.prompt_tokens_by_rule)
        return request if left >= request.max_tokens else replace(request, max_tokens=max(1, left))

    def note_completion(self, question: Question, completion: Completion) -> Load:
        """Counts what a call did cost. Where the endpoint reports no tokens, the estimate stands for the limits."""
        prompt, answer = completion.prompt_tokens, completion.completion_tokens
        question.prompt_tokens += prompt
        question.completion_tokens += answer
        self.prompt_tokens += prompt
        self.completion_tokens += answer
        microdollars = 0
        if self._price is not FREE:
            microdollars = self._price.count_microdollars(prompt, answer)
            question.microdollars += microdollars
            self.microdollars += microdollars
        if question.prompt_tokens_by_rule:
            self._estimator.learn(question.prompt_tokens_by_rule, prompt)
        if not self._is_estimated:
            return NO_LOAD
        if prompt == 0 and answer == 0:
            prompt = self._estimator.correct(question.prompt_tokens_by_rule)
            answer = estimate_text_tokens(completion.text)
            microdollars = self._price.count_microdollars(prompt, answer)
        return Load(prompt + answer, microdollars)

    def note_failure(self, question: Question, error: BaseException) -> Load:
        """What a failed call costs for the limits: nothing if it was refused, else its prompt, which may have
        been read and charged for."""
        if not self._is_estimated or isinstance(error, ModelEndpointError):
            return NO_LOAD
        if isinstance(error, ModelUnavailableError) and error.http_status == 429:
            return NO_LOAD
        if isinstance(error, ModelError) and not error.transient:
            return NO_LOAD
        prompt = self._estimator.correct(question.prompt_tokens_by_rule)
        return Load(prompt, self._price.count_microdollars(prompt, 0))


def count_by_rule(request: ModelRequest) -> int:
    """Tokens of a request by the rule of `tokens`, those of the schema of its answer included."""
    tokens = estimate_prompt_tokens(request)
    return tokens if request.answer_type is None else tokens + _count_schema(request.answer_type)


@lru_cache(maxsize=256)
def _count_schema(answer_type: type[BaseModel]) -> int:
    return estimate_text_tokens(to_json(answer_schema(answer_type)).decode()) + 24

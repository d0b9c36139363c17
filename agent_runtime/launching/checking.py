"""What of a launch cannot be run here, all of it, and what its prompts take: nothing is started.

{"problems": [{"where": "groups.a.parameters", "problem": "…"}], "prompts": {"a": [410, 455]},
     "answers": {"a": "reasoning_and_number"}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from agent_runtime.agents.cohort import AGENT_ID
from agent_runtime.agents.prompted_player import GROUPS_PLAY, NOTE, PROMPT_DEFAULT, PromptedGuesser, describe_persona
from agent_runtime.agents.ready import GroupsTold, GuessGame, PromptedPlayer, load_template
from agent_runtime.agents.registry import find_agent_class
from agent_runtime.agents.scripted_answers import find_answers
from agent_runtime.launching.agents import check_class, open_tables
from agent_runtime.llm.tokens import estimate_message_tokens
from agent_runtime.model.errors import LaunchError
from agent_runtime.settings import GroupSpec, Launch

SAMPLE_MAX = 100
"""Agents of a group whose prompts are measured."""
_GAME = GuessGame(2 / 3)
_LAST_WINNER = 22.22


def check_launch(launch: Launch) -> dict[str, Any]:
    """The document above. `prompts`: group -> tokens of a prompt in the first round, and in a later one, on average.
    `answers`: group -> what its template asks for.

    Those of ready prompted players alone: what classes of one's own ask is theirs. Raises LaunchError: a file of agents
    cannot be read.
    """
    tables = open_tables(launch)
    problems = [{"where": error.where, "problem": error.problem} for error in list_problems(launch)]
    wrong = {problem["where"].split(".")[1] for problem in problems}
    prompts, answers = {}, {}
    for group in launch.groups:
        if group.name not in wrong and issubclass(find_agent_class(group.agent, group.name), PromptedGuesser):
            prompts[group.name] = measure_prompts(group, tables[group.name].slice(0, SAMPLE_MAX))
            answers[group.name] = load_template(group.parameters.get("prompt", PROMPT_DEFAULT)).answer
    return {"problems": problems, "prompts": prompts, "answers": answers}


def list_problems(launch: Launch) -> Iterator[LaunchError]:
    """What each group and each model has that is not installed, or does not fit."""
    for group in launch.groups:
        try:
            agent_class = check_class(launch, group)
            if group.model is None and issubclass(agent_class, PromptedGuesser):
                raise LaunchError(f"groups.{group.name}.model", "is missing: its agents ask")
        except LaunchError as error:
            yield error
    for name, model in launch.models.items():
        try:
            if model.provider == "scripted":
                find_answers(model.answers, f"models.{name}.answers", launch.seed)
        except LaunchError as error:
            yield error


def measure_prompts(group: GroupSpec, agents: pa.Table) -> tuple[float, float]:
    """Tokens of a prompt in the first round and in a later one, by the rule of `llm.tokens`."""
    player = PromptedPlayer(load_template(group.parameters.get("prompt", PROMPT_DEFAULT)), _GAME)
    has_note = bool(group.parameters.get(NOTE))
    names = group.parameters.get(GROUPS_PLAY)
    groups = GroupsTold(group.name, dict.fromkeys(names, _LAST_WINNER)) if names else None
    profiles = agents.drop_columns([AGENT_ID]).to_pylist() or [{}]
    tokens = [0, 0]
    for profile in profiles:
        persona = describe_persona(profile)
        for number, told in ((1, None), (2, _LAST_WINNER)):
            messages = player.build_messages(persona, number, told, groups=groups, has_note=has_note)
            tokens[number - 1] += estimate_message_tokens(messages)
    return tokens[0] / len(profiles), tokens[1] / len(profiles)

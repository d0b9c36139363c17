"""`ecumene interview` and `ecumene survey`: ask agents that live."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, WorldOption, run_in_world
from ecumene.cli.failures import CliError, UsageError
from ecumene.cli.progress import show_progress
from ecumene.cli.survey_tables import (
    check_names,
    check_path,
    count_statuses,
    make_row,
    name_columns,
    write_csv,
    write_table,
)
from ecumene.cli.tables import print_json, print_table, to_document
from ecumene.client.runtime_model import AnswerStatus, QuestionType, SurveyQuestion, SurveyRow
from ecumene.client.world import World
from ecumene.launch.asking import interview_agent, sample_run, survey_agents

ANSWERED = (AnswerStatus.OK, AnswerStatus.RULE)
Texts = list[str]

RunArgument = Annotated[str, typer.Argument(help="Name of the run.", metavar="RUN")]
TimeoutOption = Annotated[float, typer.Option("--timeout", help="Seconds for each agent's answer.", min=1, max=600)]


def interview(
    run: RunArgument,
    agent: Annotated[str, typer.Argument(help="Id of the agent.", metavar="AGENT")],
    question: Annotated[str, typer.Argument(help="What to ask.", metavar="QUESTION")],
    timeout: TimeoutOption = 120.0,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Ask a living agent anything. It remembers nothing of it."""
    told = run_in_world(server, world, lambda opened: interview_agent(opened, run, agent, question, timeout_s=timeout))
    if as_json:
        print_json(to_document(told))
    elif told.status in ANSWERED:
        print(told.text)
        if told.reason:
            print(f"({told.reason})", file=sys.stderr)
    else:
        raise CliError(f"{agent} gave no answer: {told.status.name.lower()}: {told.reason}")


def survey(
    run: RunArgument,
    ask: Annotated[
        Texts,
        typer.Option(
            "--ask",
            help="NAME:TYPE:TEXT; TYPE is text, number, integer, boolean, or choices by |. May be repeated.",
            metavar="QUESTION",
        ),
    ],
    count: Annotated[int, typer.Option("--count", help="How many agents, drawn by --seed.", min=1, max=10_000)] = 100,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    group: Annotated[Texts | None, typer.Option(help="Only of this group. May be repeated.", metavar="GROUP")] = None,
    agent: Annotated[Texts | None, typer.Option(help="This agent, no draw. May be repeated.", metavar="AGENT")] = None,
    timeout: TimeoutOption = 120.0,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the table to this file (.csv, .parquet) instead of printing it.", metavar="FILE"),
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Ask a sample of living agents typed questions; a row an agent, with a status.

    ecumene survey monday --ask "trust:number:How much do you trust the bank?" --ask "vote:yes|no:Will you vote?"
    """
    questions = [parse_question(text) for text in ask]
    check_names(questions)
    if out is not None:
        check_path(out)

    async def collect(opened: World) -> list[SurveyRow]:
        agents = agent or [one.agent for one in await sample_run(opened, run, count, seed=seed, groups=group or ())]
        rows: list[SurveyRow] = []
        with show_progress("survey", len(agents), "agents") as display:
            async for row in survey_agents(opened, run, questions, agents, timeout_s=timeout):
                rows.append(row)
                display.show(len(rows), run)
        order = {one: place for place, one in enumerate(agents)}
        return sorted(rows, key=lambda row: order[row.agent])

    rows = run_in_world(server, world, collect)
    if out is not None:
        try:
            write_table(out, rows, questions)
        except OSError as error:
            raise CliError(f"{error.strerror or error}: {out}") from error
    if as_json:
        print_json([to_document(row) for row in rows])
    elif as_csv:
        write_csv(sys.stdout, rows, questions)
    else:
        if out is None:
            print_table(name_columns(questions), (make_row(row, questions) for row in rows))
        print(count_statuses(rows) + ("" if out is None else f"; table: {out}"))


def parse_question(text: str) -> SurveyQuestion:
    """NAME:TYPE:TEXT.

    Raises UsageError.
    """
    name, _, rest = text.partition(":")
    kind, colon, asked = rest.partition(":")
    example = "write it as NAME:TYPE:TEXT, such as mood:number:How do you feel, 0 to 10?"
    if not (name and kind and colon and asked.strip()):
        raise UsageError(f"{text!r} is no question", hint=example)
    if "|" in kind:
        return SurveyQuestion(name, asked.strip(), QuestionType.CHOICE, tuple(kind.split("|")))
    try:
        return SurveyQuestion(name, asked.strip(), QuestionType[kind.upper()])
    except KeyError:
        known = "text, number, integer, boolean, or choices such as yes|no"
        raise UsageError(f"{kind!r} is no type of an answer", hint=f"there are {known}") from None

"""`ecumene background`: write who the agents of a spec are."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.failures import CliError, Interrupted, StoppedByBudget, UsageError
from ecumene.cli.progress import ProgressDisplay, show_progress
from ecumene.cli.running import stop_by_signals
from ecumene.cli.tables import print_json, print_table
from ecumene.sim import load_spec
from ecumene.sim.backgrounds.writing import (
    BackgroundsOutcome,
    BackgroundsUnfinishedError,
    write_backgrounds,
)

SHOWN = 3
SHOWN_CHARS_MAX = 300


def background(
    spec: Annotated[Path, typer.Argument(help="The spec, a YAML file.", metavar="SPEC.yaml")],
    out: Annotated[
        Path | None, typer.Option(help="Instead of the spec's population.backgrounds.file.", metavar="FILE.parquet")
    ] = None,
    first: Annotated[
        int | None, typer.Option(help="Write only so many, show them, and write no file; they are kept.", min=1)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write who the agents of a spec are; what is finished is kept, and the same command goes on."""
    loaded = load_spec(spec)
    backgrounds = loaded.population.backgrounds
    if out is not None and backgrounds is not None:
        if out.suffix != ".parquet":
            raise UsageError(f"--out {out}: must end in .parquet")
        population = loaded.population.model_copy(update={"backgrounds": backgrounds.model_copy(update={"file": out})})
        loaded = loaded.model_copy(update={"population": population})
    display = Display()
    again = f"the same command goes on: ecumene background {shlex.quote(str(spec))}"
    again += f" --out {shlex.quote(str(out))}" if out is not None else ""
    try:
        outcome = asyncio.run(stop_by_signals(write_backgrounds(loaded, display, first=first)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted("interrupted; what is finished is kept", hint=again) from None
    except BackgroundsUnfinishedError as error:
        raise StoppedByBudget(str(error), hint=f"with a larger budget, {again}") from error
    except OSError as error:
        raise CliError(f"{error.strerror or error}: {error.filename or ''}") from error
    finally:
        display.close()
    if as_json:
        print_json(outcome.to_document())
    else:
        show(outcome)


def show(outcome: BackgroundsOutcome) -> None:
    """Print how many have what, how different the texts are, and a few of them."""
    people = len(outcome.backgrounds)
    rows = [[status, count, f"{count / people:.0%}"] for status, count in outcome.statuses.items()]
    print_table(["status", "people", "share"], rows)
    for reason, count in list(outcome.reasons.items())[:10]:
        print(f"flagged: {count:,} {reason}")
    found = outcome.diversity
    print(
        f"distinct words {found.distinct_1:.3f}, pairs {found.distinct_2:.3f}, triples {found.distinct_3:.3f}; "
        f"similarity on the average {found.similarity_mean:.3f}, to the nearest {found.nearest_mean:.3f}, "
        f"at most {found.nearest_max:.3f}"
    )
    tokens = outcome.prompt_tokens + outcome.completion_tokens
    print(f"{outcome.written:,} texts written now for {tokens:,} tokens, {outcome.kept:,} were kept")
    shown = SHOWN if outcome.path is not None else people
    for one in [one for one in outcome.backgrounds if one.background][:shown]:
        text = one.background[:SHOWN_CHARS_MAX] + ("…" if len(one.background) > SHOWN_CHARS_MAX else "")
        print(f"{one.agent} ({one.status}): {text}")
    print("no file was written" if outcome.path is None else f"backgrounds: {outcome.path}")


class Display:
    """An observer that shows it: lines, and a bar a part."""

    def __init__(self) -> None:
        self._progress: ProgressDisplay | None = None

    def close(self) -> None:
        """End the bar, if there is one."""
        if self._progress is not None:
            self._progress.__exit__(None, None, None)
            self._progress = None

    def stage_began(self, stage: str) -> None:
        """A line."""
        self.close()
        print(stage, file=sys.stderr, flush=True)

    def texts_counted(self, done: int, total: int, part: str) -> None:
        """The bar moves."""
        if self._progress is None:
            self._progress = show_progress("writing", total, "texts")
            self._progress.__enter__()
        self._progress.show(done, part)

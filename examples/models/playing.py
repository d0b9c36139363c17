"""The command line of a model: what it can be asked, and what it tells; a table, and if wanted a file and a picture."""

from __future__ import annotations

import argparse
import asyncio
import csv
import inspect
import math
import signal
import statistics
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from intervals import compute_half_width
from stage import Known, Model, Played, Stage, join_digests, summarise

EXIT_INTERRUPTED = 128 + signal.SIGINT
PICTURES = (".png", ".svg", ".pdf")


def main(model: Model) -> None:
    """The command line of a model that has no arguments of its own."""
    parser = make_parser(inspect.getdoc(inspect.getmodule(type(model))) or "", model.meanings)
    play_and_tell(parser, model, parser.parse_args())


def make_parser(text: str, meanings: Mapping[str, str]) -> argparse.ArgumentParser:
    """What every model can be asked. `text`: what it is about; `meanings`: of its figures."""
    parser = argparse.ArgumentParser(
        description=text,
        epilog="\n".join(["figures:", *(f"  {line}" for line in explain(meanings))]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=positive, default=30, metavar="N", help="how many runs (default: 30)")
    first = "seed of the first run; each later one has the next (default: 1)"
    parser.add_argument("--first-seed", type=int, default=1, metavar="SEED", help=first)
    shares = "among how many runtimes the agents are shared out (default: 1); the digest is the same"
    parser.add_argument("--runtimes", type=positive, default=1, metavar="N", help=shares)
    workers = "processes of each runtime (default: 1); the digest is the same"
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help=workers)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the figures of each run there, a row a run")
    kinds = ", ".join(PICTURES)
    parser.add_argument("--plot", type=Path, metavar="FILE", help=f"draw them beside what is known ({kinds})")
    return parser


def positive(text: str) -> int:
    """A whole number above 0, for arguments."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def between(low: float, high: float) -> Callable[[str], float]:
    """A number of this range, both included, for arguments."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {low:g} to {high:g}")
        return number

    return read


def play_and_tell(parser: argparse.ArgumentParser, model: Model, asked: argparse.Namespace) -> None:
    """Play, and tell what came of it; what cannot be is refused first.

    SIGTERM does what Ctrl-C does: it is stopped and cleaned up, and exits with 130.
    """
    count = len(model.agents)
    if asked.runtimes > count:
        parser.error(f"argument --runtimes: {asked.runtimes} are too many for {count} agents")
    for file in filter(None, (asked.csv, asked.plot)):
        if not file.parent.is_dir():
            parser.error(f"there is no folder {file.parent} to write {file.name} in")
    if asked.plot and asked.plot.suffix not in PICTURES:
        parser.error(f"argument --plot: {asked.plot.name!r} ends in none of {', '.join(PICTURES)}")
    run_until_stopped(_play_and_tell(model, asked))


def run_until_stopped(whole: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; Ctrl-C and SIGTERM stop it, let it clean up, and exit with 130.

    Also in the background of a script, whose shell lets its children ignore Ctrl-C.
    """
    try:
        asyncio.run(_be_stoppable(whole))
    except asyncio.CancelledError:
        sys.exit(EXIT_INTERRUPTED)


async def _be_stoppable(whole: Coroutine[Any, Any, None]) -> None:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await whole


async def _play_and_tell(model: Model, asked: argparse.Namespace) -> None:
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    shares = "a runtime" if asked.runtimes == 1 else f"{asked.runtimes} runtimes"
    print(f"starting a server and {shares} ...", file=sys.stderr, flush=True)
    async with Stage([model], runtimes=asked.runtimes, workers=asked.workers) as stage:
        played = await stage.play(model, seeds)
    which = f"seed {seeds.start}" if len(seeds) == 1 else f"seeds {seeds.start} to {seeds.stop - 1}"
    print(f"{model.name}: {len(model.agents)} agents, {which}")
    print(*summarise(model, played), "", *explain(model.meanings), "", sep="\n")
    steps = sum(run.steps for run in played)
    print(f"{steps} step{'s' * (steps != 1)}, {stage.steps_per_s:.0f} a second")
    print("digest of all runs:", join_digests(played))
    if asked.csv:
        write_csv(played, asked.csv)
    if asked.plot:
        draw(model, played, asked.plot)


def explain(meanings: Mapping[str, str]) -> list[str]:
    """What the figures are, a line each."""
    return [f"{name}: {meaning}" for name, meaning in meanings.items()]


def write_csv(played: Sequence[Played], file: Path) -> None:
    """The figures of each run, with all digits."""
    with file.open("w", newline="", encoding="utf-8") as sink:
        rows = csv.writer(sink)
        rows.writerow(["seed", *played[0].figures, "steps", "digest"])
        rows.writerows([run.seed, *run.figures.values(), run.steps, run.digest] for run in played)
    print("figures of each run:", file)


def draw(model: Model, played: Sequence[Played], file: Path) -> None:
    """A strip a figure: each run, the mean with its 95 % interval, and what is known."""
    from matplotlib.figure import Figure  # only who wants a picture needs it

    known, names = model.list_known(), list(played[0].figures)
    figure = Figure(figsize=(7.5, 1.2 + 0.85 * len(names)), layout="constrained")
    strips = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    for axes, name in zip(strips, names, strict=True):
        _draw_strip(axes, [run.figures[name] for run in played], known.get(name))
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
    handles = {
        label: handle for axes in strips for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize="small"
    )
    runs = f"{len(played)} run{'s' * (len(played) != 1)}"
    figure.suptitle(f"{model.name}: {len(model.agents)} agents, {runs}", fontsize="medium")
    figure.savefig(file, dpi=150)
    print("plot:", file)


def _draw_strip(axes: Any, values: Sequence[float], known: Known | None) -> None:
    heights = [
        ((run * 0.618034) % 1 - 0.5) * 0.6 for run in range(len(values))
    ]  # so that equal ones do not hide others
    axes.scatter(values, heights, s=14, color="tab:blue", alpha=0.45, linewidths=0, label="a run")
    half = compute_half_width(values) or 0.0
    style = {"fmt": "o", "color": "black", "capsize": 4, "label": "mean, 95 % interval"}
    axes.errorbar([statistics.fmean(values)], [0], xerr=[half], **style)
    if known is not None:
        axes.axvline(known.value, color="tab:red", linestyle="--", label="known")
        if known.deviation:
            low, high = known.value - known.deviation, known.value + known.deviation
            axes.axvspan(low, high, color="tab:red", alpha=0.12, linewidth=0, label="known, ± its deviation")
    axes.set(yticks=[], ylim=(-0.6, 0.6))
    axes.spines[["top", "right", "left"]].set_visible(False)

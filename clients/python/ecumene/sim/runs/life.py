"""Runs an experiment from its spec to its records, and goes on with one that ended before its time.

    directory, manifest ─► stage: server, world, agents, rounds ─► manifest, report

Whatever ends a run, what was recorded stays and the manifest says how it ended. Only a run that has played all its
rounds is done; `resume` takes up any other where it stands: the same spec, agents, memories and numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecumene.client.errors import EcumeneError
from ecumene.client.records import RunState, read_manifest
from ecumene.launch import Services
from ecumene.sim.populations.population import Population, build_population
from ecumene.sim.rounds.group_players import list_players
from ecumene.sim.rounds.plans import GamePlan, RoundsPlan
from ecumene.sim.runs.budgets import BudgetSpentError, plan_quotas, raise_budgets
from ecumene.sim.runs.directory import RunLock, make_directory
from ecumene.sim.runs.launch import write_launch
from ecumene.sim.runs.options import RunObserver, RunOptions
from ecumene.sim.runs.profiles import keep_networks, keep_profiles
from ecumene.sim.runs.record import RunRecord
from ecumene.sim.runs.results import RunOutcome
from ecumene.sim.runs.stage import Stage
from ecumene.sim.runs.stopping import heed_requests
from ecumene.sim.runs.unobserved import Unobserved
from ecumene.sim.specs.errors import SpecError, SpecProblem
from ecumene.sim.specs.spec import RunSpec, take_spec


async def run(
    spec: RunSpec | Mapping[str, Any] | Path | str,
    *,
    observer: RunObserver | None = None,
    options: RunOptions | None = None,
) -> RunOutcome:
    """Run an experiment and return what it came to. `spec`: one, its fields as a mapping, or the path of its file.

    Its directory is `spec.recording.directory`/RUN, where RUN is the spec's name and the time. If this is
    cancelled, services are stopped in order, what was recorded is kept, and the manifest says `interrupted`.

    Raises SpecError before anything is begun, and (when the manifest says `failed`):
        LaunchError: a service did not start, or ended.
        EcumeneError: the world refused something, or could not be reached for too long.
        OSError: the disk.
    RunStoppedError (`interrupted`): its end was asked for (`ecumene stop`).
    BudgetSpentError (`stopped_by_budget`): a budget is spent; `resume` goes on, with a larger one.
    """
    options, observer, spec = options or RunOptions(), observer or Unobserved(), take_spec(spec)
    if spec.sweep is not None:
        raise SpecError(spec.name, [SpecProblem("sweep", "these are several runs: begin them with run_sweep")])
    started = options.now()
    spec = spec.resolve_paths()
    name, directory = make_directory(spec, started, options.name)
    record = RunRecord.create(
        spec,
        name,
        directory,
        started,
        options.now,
        server=options.server or "",
        over_nodes=options.over_nodes,
    )
    observer.directory_chosen(directory)
    async with RunLock(directory) as lock:
        return await _live(spec, record, observer, options, lock=lock.descriptor, is_resumed=False)


async def resume(
    directory: Path, *, observer: RunObserver | None = None, options: RunOptions | None = None
) -> RunOutcome:
    """Go on with the run of a directory: one that was killed, interrupted, failed, or stopped by a budget.

    What was done counts, and is not done again: closed rounds stay, the open one goes on, turns that had their effect
    keep it, the others are taken as they would have been. Services of a conductor that was killed are waited for.

    Raises as `run` does, and:
        ManifestError: no run was begun here.
        RunDoneError: it has played all its rounds. RunActiveError: somebody else conducts it.
        SpecError: it has no such budget.
        WorldChangedError: its world is not the one that it lived in.
    """
    options, observer = options or RunOptions(), observer or Unobserved()
    # Workers on nodes live on without a conductor; they are stopped by those who host them.
    is_over_nodes = read_manifest(directory).over_nodes

    def tell_wait() -> None:
        observer.stage_began("waiting for the services of its last life to end")

    async with RunLock(directory, waits_for_writers=not is_over_nodes, on_wait=tell_wait) as lock:
        record = RunRecord.reopen(directory, options.now)
        spec = raise_budgets(record.read_spec(), options.budgets)
        record.go_on(spec, server=options.server or record.manifest.server)
        return await _live(spec, record, observer, options, lock=lock.descriptor, is_resumed=True)


async def _live(
    spec: RunSpec, record: RunRecord, observer: RunObserver, options: RunOptions, *, lock: int, is_resumed: bool
) -> RunOutcome:
    """One life of a run, to its end, or until its end is asked for."""
    async with heed_requests(record.directory):
        return await _live_on(spec, record, observer, options, lock=lock, is_resumed=is_resumed)


async def _live_on(
    spec: RunSpec, record: RunRecord, observer: RunObserver, options: RunOptions, *, lock: int, is_resumed: bool
) -> RunOutcome:
    """One life of a run, to its end or whatever ends it before."""
    over_nodes = record.manifest.over_nodes
    try:
        observer.stage_began("drawing the population")
        population = await asyncio.to_thread(build_population, spec.population, spec.seed)
        await asyncio.to_thread(keep_profiles, population, record.directory)
        await asyncio.to_thread(keep_networks, spec.population, population, spec.people_seed, record.directory)
        plan = plan_rounds(spec, population)
        # Who asks agents hosts them on a node, the run's own or others': what that is launched with never changes.
        is_hosted = over_nodes or spec.asks
        quotas = plan_quotas(spec, record.run, over_nodes=is_hosted)
        launch_path = write_launch(
            spec,
            population,
            run=record.run,
            directory=record.directory,
            workers=options.workers,
            quotas=quotas,
            parts_of_nodes=is_hosted,
        )
        async with Services() as services:
            stage = Stage(
                spec,
                plan,
                record,
                services,
                observer,
                options,
                population=population,
                lock=lock,
                quotas=quotas,
                is_resumed=is_resumed,
            )
            await stage.play(launch_path)
        observer.stage_began("writing the report")
        return await asyncio.to_thread(record.end_well)
    except asyncio.CancelledError:
        record.end(RunState.INTERRUPTED, "interrupted")
        raise
    except BudgetSpentError as error:
        record.end(RunState.STOPPED_BY_BUDGET, str(error))
        raise
    except Exception as error:
        # Whatever it was, the manifest says how the run ended.
        told = isinstance(error, EcumeneError | OSError) and " ".join(str(error).split())
        record.end(RunState.FAILED, told or f"{type(error).__name__}: {' '.join(str(error).split())}")
        raise


def plan_rounds(spec: RunSpec, population: Population) -> RoundsPlan:
    """What is played by a population."""
    agents = len(population)
    deadline_ms = 0 if spec.deadline_s is None else round(spec.deadline_s * 1000)
    experiment = spec.experiment
    if experiment is not None:
        path = experiment.environment or experiment.clock or ""
        return RoundsPlan(rounds=spec.rounds, participants=agents, deadline_ms=deadline_ms, path=path)
    ratio, offset = float(spec.game.ratio), float(spec.game.offset)
    return GamePlan(
        rounds=spec.rounds,
        participants=agents,
        deadline_ms=deadline_ms,
        ratio=ratio,
        offset=offset,
        groups=list_players(spec, population),
    )

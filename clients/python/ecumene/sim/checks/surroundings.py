"""What a spec names outside of itself: files, folders, and the variables of keys."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ecumene.client.records import CALLS, ManifestError, list_parts, read_manifest
from ecumene.sim.specs.models import EndpointSpec, ModelSpec
from ecumene.sim.specs.spec import RunSpec
from ecumene.sim.specs.yaml_reading import Place

Told = Iterator[tuple[Place, str]]


def list_missing(spec: RunSpec) -> Told:
    """Files and folders that are not as the run needs them."""
    yield from _check_folder(("recording", "directory"), spec.recording.directory)
    backgrounds = spec.population.backgrounds
    if backgrounds is not None and backgrounds.mode == "model" and not backgrounds.file.exists():
        yield (
            ("population", "backgrounds", "file"),
            f"{backgrounds.file} is not there yet: ecumene background SPEC writes it",
        )
    for place, model in place_models(spec):
        for holder_place, holder in _list_holders(place, model):
            if holder.api_key_file is not None:
                yield from _check_file((*holder_place, "api_key_file"), holder.api_key_file)
        if model.cache is not None and not model.cache.absolute().parent.is_dir():
            yield (*place, "cache"), f"its folder {model.cache.absolute().parent} does not exist"
        if model.replay_from is not None:
            yield from _check_recording((*place, "replay_from"), model.replay_from)


def list_unset(spec: RunSpec, environment: Mapping[str, str] = os.environ) -> Told:
    """Variables that hold no key here; where the run is begun they may."""
    for place, model in place_models(spec):
        for holder_place, holder in _list_holders(place, model):
            if holder.api_key_variable and not environment.get(holder.api_key_variable):
                yield (*holder_place, "api_key_variable"), f"the variable {holder.api_key_variable} is not set here"


def place_models(spec: RunSpec) -> Iterator[tuple[Place, ModelSpec]]:
    """The models that stand in a spec, each with its place."""
    if spec.model is not None:
        yield ("model",), spec.model
    for name, model in spec.models.items():
        yield ("models", name), model


def _list_holders(place: Place, model: ModelSpec) -> Iterator[tuple[Place, ModelSpec | EndpointSpec]]:
    yield place, model
    for number, endpoint in enumerate(model.endpoints):
        yield (*place, "endpoints", number), endpoint


def _check_file(place: Place, path: Path) -> Told:
    if not path.exists():
        yield place, f"{path} does not exist"
    elif not path.is_file():
        yield place, f"{path} is no file"
    elif not os.access(path, os.R_OK):
        yield place, f"{path} cannot be read"


def _check_folder(place: Place, path: Path) -> Told:
    """One that will be made, with all above it."""
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    if not there.is_dir():
        yield place, f"{there} is a file, no folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        yield place, f"{there} cannot be written to"


def _check_recording(place: Place, path: Path) -> Told:
    try:
        manifest = read_manifest(path)
    except (ManifestError, OSError):
        yield place, f"{path} is not the directory of a run"
        return
    if not list_parts(path, CALLS):
        yield place, f"the run {manifest.run} in {path} has no recorded model calls"
    elif not (manifest.spec.get("recording") or {}).get("bodies"):
        yield place, f"the run {manifest.run} was recorded without recording.bodies: true, so its answers are not there"

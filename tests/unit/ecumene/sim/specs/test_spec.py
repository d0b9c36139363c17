"""A spec says all that is wrong with it, by exact field, and comes back from its document."""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ecumene.client.errors import EcumeneError
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import RunSpec, load_spec, parse_spec, read_document

EXAMPLES = Path(__file__).resolve().parents[5] / "examples"
EXAMPLE = EXAMPLES / "guess_average.yaml"
AGENT_CLASSES = (
    "population.groups[1].agent: must be 'level-k', 'noisy-level-k', 'equilibrium', 'listed', 'random', 'prompted', "
    "'prompted-agent' or module:Class"
)
DOCUMENT: dict[str, Any] = {
    "name": "mine",
    "population": {
        "size": 10,
        "groups": [
            {"name": "a", "agent": "level-k", "share": 0.4, "parameters": {"level": 1}},
            {"name": "b", "agent": "random", "share": 0.6},
        ],
    },
}


def change(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """The document with one field set."""
    document = copy.deepcopy(DOCUMENT)
    place: Any = document
    for step in path[:-1]:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
    place[path[-1]] = value
    return document


def list_lines(document: Any) -> list[str]:
    """The problems of a document that is refused."""
    with pytest.raises(SpecError) as caught:
        parse_spec(document)
    assert str(caught.value) == f"spec: {caught.value.problems[0]}"
    return [str(problem) for problem in caught.value.problems]


def test_the_example_loads_and_comes_back_from_its_document() -> None:
    spec = load_spec(EXAMPLE)
    assert (spec.game.ratio, spec.game.rounds, spec.population.size) == (2 / 3, 5, 1000)
    assert parse_spec(spec.to_document()) == spec


@pytest.mark.parametrize("path", ["name", "seed", "game.ratio", "game.rounds", "population.size", "population.groups"])
def test_a_text_without_end_is_told_of_by_its_beginning(path: str) -> None:
    for line in list_lines(change(tuple(path.split(".")), "x" * 100_000)):
        assert len(line) < 300


def test_guests_are_invited_by_a_number_or_not_at_all() -> None:
    assert load_spec(EXAMPLE).game.guests is None
    assert load_spec(EXAMPLES / "guess_with_guest.yaml").game.guests == 1
    assert list_lines(change(("game", "guests"), -1)) == ["game.guests: must be at least 0, not -1"]


@pytest.mark.parametrize("ratio", ["2/3", " 2 / 3 ", 2 / 3, "0.5", 1])
def test_a_ratio_may_be_a_number_or_a_fraction(ratio: Any) -> None:
    parsed = parse_spec(change(("game", "ratio"), ratio)).game.ratio
    assert parsed in (2 / 3, 0.5, 1.0)


URLS_REFUSED = {
    "must look like http://host:port/v1": (
        *("", "x", "ftp://x", "http://", "http:///v1", "http://[::1", "http://x:99999/v1", "http://x:y/v1", "//x"),
        *("http://x\r\ny/v1", "http://x y/v1", "http://\0x"),
    ),
    "holds credentials; give the key by api_key_variable or api_key_file": ("http://me:pw@x/v1", "https://me@x"),
}


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("name",), "Mine", "name: must be 1 to 40 characters of a-z, 0-9 and -, the first no -, not 'Mine'"),
        (("nmae",), "x", "nmae: unknown field; did you mean name?"),
        (("game", "raito"), 1, "game.raito: unknown field; did you mean ratio?"),
        (("game", "ratio"), "2/0", "game.ratio: '2/0' is no number and no fraction such as \"2/3\""),
        (("game", "ratio"), 0, "game.ratio: must be more than 0, not 0"),
        (("game", "ratio"), float("inf"), "game.ratio: must be a finite number"),
        (("game", "ratio"), "1e999", "game.ratio: too large"),
        (("game", "ratio"), True, 'game.ratio: write a number, or a fraction such as "2/3"'),
        (("game", "rounds"), 0, "game.rounds: must be at least 1, not 0"),
        (("game", "rounds"), "five", "game.rounds: must be a whole number, not 'five'"),
        (("game", "rounds"), 2.5, "game.rounds: must be a whole number, not 2.5"),
        (("game",), [1], "game: must be a mapping"),
        (("game", "players"), "teams", "game.players: must be 'agents' or 'groups', not 'teams'"),
        (
            ("game",),
            {"players": "groups", "guests": 1},
            "game: guests belong to no group: they play where players are agents",
        ),
        (
            ("model",),
            {"answers": {"player": "level-k"}},
            "model.answers.level: is missing",
        ),
        (
            ("model",),
            {"answers": {"player": "listed", "numbers": [5, 101]}},
            "model.answers.numbers[1]: must be at most 100, not 101",
        ),
        (
            ("model",),
            {"answers": {"level": 1}},
            "model: answers names a player: level-k, noisy-level-k, equilibrium, listed, random, not None",
        ),
        (("model",), {"provider": "openai"}, "model: endpoint is for provider openai, and needed there"),
        (("model",), {"provider": "local", "latency_ms": 5}, "model: latency_ms is for provider scripted"),
        (("model",), {"slots": 4}, "model: slots is for provider local"),
        (
            ("model",),
            {"provider": "replay"},
            "model: provider replay needs replay_from, the directory of a recorded run",
        ),
        (("model",), {"microdollars_max": 5}, "model: microdollars_max needs a price"),
        *(
            (("model",), {"provider": "openai", "endpoint": url}, f"model.endpoint: {problem}")
            for problem, urls in URLS_REFUSED.items()
            for url in urls
        ),
        (
            ("model",),
            {"provider": "openai", "endpoints": [{"url": "ftp://x"}]},
            "model.endpoints[0].url: must look like http://host:port/v1",
        ),
        *(
            (where, path, f"{'.'.join(where)}: holds what no name of a file can")
            for path in ("a\0b", "\ud800")
            for where in (("recording", "directory"), ("model", "cache"), ("model", "api_key_file"))
        ),
        (("name",), "-x", "name: must be 1 to 40 characters of a-z, 0-9 and -, the first no -, not '-x'"),
        (
            ("model",),
            {"provider": "openai", "endpoints": [{}]},
            "model.endpoints[0].url: is missing",
        ),
        (("model", "requests_per_minute"), 0, "model.requests_per_minute: must be at least 1, not 0"),
        (("models",), {"m": {"temprature": 1}}, "models.m.temprature: unknown field; did you mean temperature?"),
        (("budget", "microdollars_max"), 5, "budget.microdollars_max: needs a model with a price"),
        (("budget", "tokens_max"), -1, "budget.tokens_max: must be at least 0, not -1"),
        (
            ("population", "groups", 1, "model"),
            "m",
            "population.groups[1]: only prompted agents, and classes of your own, ask a model",
        ),
        (("population", "size"), None, "population: shares need a size"),
        (("population", "groups"), [], "population: there are no groups"),
        (("population", "groups", 1, "name"), "a", "population: groups share the name a"),
        (("population", "groups", 1, "shar"), 1, "population.groups[1].shar: unknown field; did you mean share?"),
        (
            ("population", "groups", 0, "parameters", "level"),
            -1,
            "population.groups[0].parameters.level: must be at least 0, not -1",
        ),
        (("population", "groups", 1, "parameters"), 3, "population.groups[1].parameters: must be a mapping, not 3"),
        (
            ("population", "groups", 1, "agent"),
            "randm",
            f"{AGENT_CLASSES}, not 'randm'; did you mean random?",
        ),
        (("population", "groups", 1, "agent"), "x" * 99, f"{AGENT_CLASSES}, not '{'x' * 59}…"),
        (
            ("population", "groups", 1, "parameters"),
            {"level": 1},
            "population.groups[1].parameters.level: unknown parameter; it takes none",
        ),
        (("population", "groups", 0, "parameters"), {}, "population.groups[0].parameters.level: is missing"),
        (("population", "groups", 1, "count"), 3, "population.groups[1]: give either count or share"),
    ],
)
def test_a_problem_names_its_field(path: tuple[str | int, ...], value: Any, line: str) -> None:
    assert [found.lower() for found in list_lines(change(path, value))] == [line.lower()]


@pytest.mark.parametrize("shares", [(0.6, 0.6), (0.5, 0.4), ("1/3", 0.666)])
def test_shares_that_do_not_sum_to_one_are_refused_unless_normalised(shares: tuple[Any, Any]) -> None:
    document = change(("population", "groups", 0, "share"), shares[0])
    document["population"]["groups"][1]["share"] = shares[1]
    (line,) = list_lines(document)
    assert line.startswith("population: the shares sum to ")
    document["population"]["normalise"] = True
    assert parse_spec(document).population.normalise


def test_shares_are_exact() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["population"]["groups"] = [{"name": f"g{n}", "agent": "random", "share": 0.1} for n in range(10)]
    assert isinstance(parse_spec(document), RunSpec)
    document["population"]["groups"] = [{"name": f"g{n}", "agent": "random", "share": "1/3"} for n in range(3)]
    assert isinstance(parse_spec(document), RunSpec)


def test_all_problems_are_told_at_once() -> None:
    document = change(("game", "rounds"), 0)
    document["name"] = ""
    del document["population"]["groups"][0]["agent"]
    lines = list_lines(document)
    assert [line.partition(":")[0] for line in lines] == ["name", "population.groups[0].agent", "game.rounds"]
    with pytest.raises(EcumeneError) as caught:
        parse_spec(document)
    assert "game.rounds" in caught.value.hint  # type: ignore[attr-defined]


LAUGHS = "\na: &a [1, 2, 3]\n" + "\n".join(
    f"{name}: &{name} [{', '.join([f'*{of}'] * 9)}]" for of, name in pairwise("abcdefghij")
)
"""Ten lines that stand for some thousand million numbers."""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "No such file"),
        ("- a", "not a mapping"),
        ("", "not a mapping"),
        ("name: [", "line 1: "),
        ("name: a\nname: b", "line 2: the key 'name' stands twice"),
        ("name: !!python/object/apply:os.getcwd []", "line 1: a tag .* that means nothing here"),
        ("name: x\npopulation: &a [*a]", "population: "),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        ("name: a\nseed: " + "9" * 5000, "line 2: a number of too many digits"),
        ("name: 2026-13-45", "population: is missing"),
        ("name: " + "[" * 5000, "is nested too deeply"),
        ("name: " + "{a: " * 3000 + "1" + "}" * 3000, "is nested too deeply"),
        ("name: " + "x" * 5_000_000, "takes more than 4,194,304 bytes"),
        (LAUGHS, "more than 100,000 fields, its aliases written out"),
        ("name: a\npopulation: " + LAUGHS.replace("\n", "\n  "), "more than 100,000 fields"),
    ],
)
def test_a_file_that_is_no_spec_says_so(tmp_path: Path, text: str | bytes | None, problem: str) -> None:
    path = tmp_path / "spec.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SpecError, match=problem) as caught:
        load_spec(path)
    assert str(path) in str(caught.value)


def ask(group: dict[str, Any], **models: Any) -> dict[str, Any]:
    """A document of one prompted group, and models that answer nothing in particular."""
    groups = [{"name": "p", "agent": "prompted", "count": 4, **group}]
    return {
        "name": "mine",
        "population": {"groups": groups},
        "models": {name: given or {} for name, given in models.items()},
    }


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (ask({"model": "c"}, a=None, b=None), "population.groups[0].model: no model is called 'c'; there are a, b"),
        (ask({"models": {"a": 1, "c": 1}}, a=None), "population.groups[0].models: no model is called 'c'; there are a"),
        (ask({"model": "c"}), "population.groups[0].model: no model is called 'c'; models names none"),
        (ask({}, a=None, b=None), "population.groups[0].model: is missing: there are several models"),
        (ask({"models": {"a": 0}}, a=None), "population.groups[0]: the weights of models sum to 0"),
        (ask({"model": "a", "models": {"a": 1}}, a=None), "population.groups[0]: give model or models, not both"),
        (ask({}, a=None) | {"model": {}}, "give model or models, not both"),
        (
            ask({"parameters": {"fallback": {"player": "dice"}}}),
            "population.groups[0].parameters: fallback names a player: level-k, noisy-level-k, equilibrium, listed,"
            " random, not 'dice'",
        ),
        (
            ask({"parameters": {"fallback": {"player": "level-k"}}}),
            "population.groups[0].parameters.fallback.level: is missing",
        ),
    ],
)
def test_a_group_asks_models_that_there_are(document: dict[str, Any], line: str) -> None:
    assert list_lines(document) == [line]


def test_a_group_asks_the_only_model_or_what_it_names() -> None:
    spec = parse_spec(ask({}, a={"provider": "scripted"}))
    assert spec.list_asked(spec.population.groups[0]) == ("a",)
    spec = parse_spec(ask({"models": {"b": 1, "a": 2}}, a=None, b=None))
    assert spec.list_asked(spec.population.groups[0]) == ("b", "a")
    assert parse_spec(spec.to_document()) == spec


def test_a_problem_in_a_file_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        "name: mine\n"
        "population:\n"
        "  groups:\n"
        "    - {name: a, agent: random, count: 2}\n"
        "    - name: b\n"
        "      agent: prompted\n"
        "game:\n"
        "  rounds: 0\n"
        "models:\n"
        "  m: {provider: openai}\n",
        encoding="utf-8",
    )
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert [str(problem) for problem in caught.value.problems] == [
        "line 5: population.groups[1]: give either count or share",
        "line 8: game.rounds: must be at least 1, not 0",
        "line 10: models.m: endpoint is for provider openai, and needed there",
    ]
    assert str(caught.value).startswith(f"{path}: line 5: population.groups[1]: ")


def own_group(**more: Any) -> dict[str, Any]:
    """A spec with a class of one's own, and rule players."""
    own = {"name": "own", "agent": "my_agents.deep:Miner", "count": 3, "parameters": {"depth": 2, "temperature": 9}}
    rule = {"name": "rule", "agent": "level-k", "count": 1, "parameters": {"level": 1}}
    return {"name": "mine", "population": {"groups": [own | more.pop("own", {}), rule]}, **more}


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, ()),
        ({"model": {"name": "small"}}, ("small",)),
        ({"models": {"one": {}}}, ("one",)),
        ({"models": {"one": {}, "two": {}}}, ()),
        ({"models": {"one": {}, "two": {}}, "own": {"model": "two"}}, ("two",)),
        ({"models": {"one": {}, "two": {}}, "own": {"models": {"one": 1, "two": 2}}}, ("one", "two")),
    ],
)
def test_a_class_of_ones_own_asks_a_model_if_there_is_one(more: dict[str, Any], asked: tuple[str, ...]) -> None:
    spec = parse_spec(own_group(**more))
    own, rule = spec.population.groups
    assert (spec.list_asked(own), spec.list_asked(rule)) == (asked, ())
    assert (own.dump_parameters(), own.temperature) == ({"depth": 2, "temperature": 9}, None)
    assert parse_spec(spec.to_document()) == spec


@pytest.mark.parametrize(
    "name", ["my_agents", "my-agents:Miner", "my_agents:", ":Miner", "a..b:C", "a:b:c", "1a:B", "a:B "]
)
def test_what_names_no_class_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="or module:Class, not"):
        parse_spec(own_group(own={"agent": name}))


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_parameters_of_ones_own_are_json(value: object) -> None:
    with pytest.raises(SpecError, match="parameters hold what JSON does not"):
        parse_spec(own_group(own={"parameters": {"x": value}}))


@pytest.mark.parametrize(
    "value", [None, True, -1, 10**30, float("nan"), "", "..", "a\0b", "\ud800", "{{", [[]], {"": 1}]
)
@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_any_value_in_any_field_is_taken_or_refused_by_name(example: str, value: Any) -> None:
    document, _ = read_document(EXAMPLES / example)
    for place in list_places(document):
        changed = copy.deepcopy(document)
        holder: Any = changed
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = value
        try:
            spec = parse_spec(changed)
        except SpecError as error:
            assert all("\n" not in str(problem) for problem in error.problems), place
        else:
            assert parse_spec(spec.to_document()) == spec, place


def list_places(document: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all fields of a document."""
    steps = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    return [place for step in steps for place in [(*above, step), *list_places(document[step], (*above, step))]]

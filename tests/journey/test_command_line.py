"""The shell's way through a world: worlds, environments, entries, events and a game, one command after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from ecumene import Graph, Grid, sync
from ecumene.cli import app

from tests.journey.conftest import RunningServer


@pytest.fixture
def ecumene(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Runs a command line with --json against the server; returns what it printed."""
    monkeypatch.setenv("ECUMENE_SERVER", server.address)

    def run(*arguments: str, code: int = 0) -> Any:
        assert app.main([*arguments, "--json"]) == code
        printed = capsys.readouterr()
        return printed.err if code else [json.loads(line) for line in printed.out.splitlines()][-1]

    return run


def test_worlds_are_created_listed_and_deleted(ecumene: Callable[..., Any]) -> None:
    assert ecumene("world", "create", "town")["entries"] == 0
    assert "exists" in ecumene("world", "create", "town", code=1)
    assert ecumene("world", "create", "town", "--if-absent")["name"] == "town"
    assert [world["name"] for world in ecumene("world", "list")] == ["main", "town"]
    assert ecumene("world", "delete", "town", "--yes") == {"deleted": "town"}
    assert [world["name"] for world in ecumene("world", "list")] == ["main"]


def test_entries_are_set_read_listed_and_removed(ecumene: Callable[..., Any]) -> None:
    ecumene("env", "set", "/town", "--config", '{"size": 3}')
    assert ecumene("env", "set", "/town")["changed"] is False
    assert ecumene("env", "set", "/town", "--kind", "basic", "--config", '{"size": 3}')["changed"] is False
    assert "of kind basic, not market" in ecumene("env", "set", "/town", "--kind", "market", code=1)
    assert "another config" in ecumene("env", "set", "/town", "--config", '{"size": 4}', code=1)
    first = ecumene("env", "set", "/town", "mood", "calm")
    second = ecumene("env", "set", "/town", "people", '{"adults": 3}', "--expect-version", "0")
    assert first["revision"] < second["revision"]
    assert ecumene("env", "get", "/town", "mood")["value"] == "calm"
    people = ecumene("env", "get", "/town", "people")
    assert (people["kind"], people["version"], people["modify_revision"]) == ("value", 1, second["revision"])
    listed = ecumene("env", "ls", "/town")
    assert [(entry["key"], entry["value"]) for entry in listed["entries"]] == [
        ("mood", "calm"),
        ("people", {"adults": 3}),
    ]
    assert [child["path"] for child in ecumene("env", "ls")["environments"]] == ["/town"]
    ecumene("env", "rm", "/town", "mood")
    assert "mood" in ecumene("env", "get", "/town", "mood", code=1)
    assert "version" in ecumene("env", "set", "/town", "people", "1", "--expect-version", "9", code=1)


def test_a_round_of_the_game_is_played_by_hand(ecumene: Callable[..., Any]) -> None:
    ecumene("env", "set", "/game", "--kind", "guess_game", "--config", '{"ratio": 0.5}')
    opened = ecumene("env", "invoke", "/game", "open_round", "participants=2")["result"]
    for agent, number in (("a", "20"), ("b", "40")):
        ecumene("env", "set", opened["reports"], agent, number)
    assert ecumene("env", "get", opened["reports"])["aggregate_values"]["mean"]["value"] == 30
    closed = ecumene("env", "invoke", "/game", "close_round", f"generation={opened['generation']}")["result"]
    assert (closed["mean"], closed["winning_number"], closed["winner"]) == (30, 15, "a")
    assert "refused with " in ecumene("env", "invoke", "/game", "close_round", "generation=7", code=1)
    event = ecumene("env", "watch", "/game", "--type", "gate_opened", "--from-revision", "1", "--count", "1")
    assert (event["path"], event["value"]["generation"]) == ("/game/reports", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["env", "set", "/town", "mood"],
        ["env", "set", "/town", "--config", "[1]"],
        ["env", "set", "/town", "--config", '{"a"'],
        ["env", "set", "/town", "mood", '{"calm": tru}'],
        ["env", "invoke", "/game", "open_round", "participants"],
        ["env", "watch", "--type", "nonsense"],
        ["env", "ls", "--limit", "0"],
        ["env", "set", "/town", "--clock", "hourly"],
        ["env", "set", "/town", "--at", "1,2"],
        ["clock", "advance", "/town", "1x"],
        ["clock", "advance", "/town"],
        ["clock", "advance", "/town", "1h", "--to", "2h"],
        ["clock", "rate", "/town", "0"],
        ["clock", "set-timer", "/town", "tick"],
        ["clock", "set-timer", "/town", "tick", "--every", "1h", "--missed", "never"],
        ["near", "/town", "--key", "ann"],
    ],
)
def test_wrong_usage_is_code_2_and_at_most_two_lines(ecumene: Callable[..., Any], arguments: list[str]) -> None:
    assert len(ecumene(*arguments, code=2).splitlines()) <= 2


def test_no_server_is_two_lines_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ecumene.cli.connecting.CONNECT_TIMEOUT_S", 0.2)
    assert app.main(["env", "ls", "--server", "127.0.0.1:1"]) == 1
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 2
    assert "cannot reach 127.0.0.1:1" in shown[0]
    assert "ecumene serve" in shown[1]


def test_simulated_time_goes_on_and_its_timers_fire(ecumene: Callable[..., Any]) -> None:
    ecumene("env", "set", "/town", "--clock", "manual")
    assert "another clock" in ecumene("env", "set", "/town", "--clock", "realtime", code=1)
    ecumene("clock", "set-timer", "/town", "tick", "--every", "1h", "--payload", '{"a": 1}')
    arrived = ecumene("clock", "advance", "/town", "2h30m")
    assert (arrived["now_ns"], arrived["next_due_ns"], arrived["paused"]) == (9 * 10**12, 108 * 10**11, False)
    (timer,) = ecumene("timers", "/town")["timers"]
    assert (timer["name"], timer["fired"], timer["payload"]) == ("tick", 2, {"a": 1})
    fired = ecumene("env", "watch", "/town", "--type", "timer_fired", "--from-revision", "1", "--count", "2")
    assert (fired["sim_time_ns"], fired["value"]["fired"]) == (72 * 10**11, 2)
    assert ecumene("clock", "pause", "/town")["paused"]
    assert "paused" in ecumene("clock", "advance", "/town", "1s", code=1)
    assert not ecumene("clock", "resume", "/town")["paused"]
    assert ecumene("clock", "step", "/town")["now_ns"] == 108 * 10**11
    assert ecumene("clock", "skip", "/town", "1d")["now_ns"] == 864 * 10**11
    assert "manual" in ecumene("clock", "rate", "/town", "2", code=1)
    assert ecumene("clock", "advance", "/town", "--to", "25h")["now_ns"] == 9 * 10**13
    ecumene("clock", "advance", "/town", "--to", "1h", code=1)
    assert ecumene("env", "get", "/town")["clock_state"]["now_ns"] == 9 * 10**13
    ecumene("clock", "cancel-timer", "/town", "tick")
    assert ecumene("timers", "/town") == {"timers": []}
    assert "no such clock: / has none" in ecumene("clock", "show", "/", code=1)
    ecumene("env", "set", "/plain")
    assert "ecumene env set PATH --clock" in ecumene("clock", "advance", "/plain", "1h", code=1)
    ecumene("env", "set", "/plain", "--clock", "manual")
    assert ecumene("clock", "advance", "/plain", "1h")["now_ns"] == 36 * 10**11
    for wrong in (["--at=-5m"], ["--every", "0"], ["--every=-1h"]):
        ecumene("clock", "set-timer", "/plain", "t", *wrong, code=2)
    ecumene("clock", "skip", "/plain", "--", "-5m", code=2)
    assert "/plain has none" in ecumene("near", "/plain", "--key", "a", "--radius", "1", code=1)


def test_ticks_that_a_skip_passes_go_by_the_timers_policy(ecumene: Callable[..., Any]) -> None:
    ecumene("env", "set", "/town", "--clock", "manual")
    for name, policy in (("all", "catch-up"), ("none", "skip"), ("one", "coalesce")):
        ecumene("clock", "set-timer", "/town", name, "--every", "1h", "--missed", policy)
    again = ecumene("clock", "set-timer", "/town", "all", "--every", "1d", "--if-absent")
    assert not again["changed"]
    ecumene("clock", "skip", "/town", "210m")
    told = {timer["name"]: (timer["missed"], timer["fired"]) for timer in ecumene("timers", "/town")["timers"]}
    assert told == {"all": ("catch_up", 3), "none": ("skip", 0), "one": ("coalesce", 1)}


def test_who_is_near_is_found(ecumene: Callable[..., Any], server: RunningServer) -> None:
    with sync.connect(server.address) as world:
        world.environment("/town").register(space=Grid(10, 10, torus=True))
    for key, at in (("ann", "0,0"), ("bob", "9,0"), ("cem", "5,5")):
        ecumene("env", "set", "/town", key, "1", "--at", at)
    assert ecumene("env", "get", "/town", "bob")["position"] == [9, 0]
    near = ecumene("near", "/town", "--key", "ann", "--radius", "1")
    assert near["near"] == [{"key": "bob", "distance": 1, "position": [9, 0]}]
    assert [row["key"] for row in ecumene("near", "/town", "--at", "4,4", "--nearest", "1")["near"]] == ["cem"]
    assert [row["key"] for row in ecumene("near", "/town", "--box", "5,0,9,5")["near"]] == ["bob", "cem"]
    assert ecumene("near", "/town", "--box", "1,1,2,2")["near"] == []
    assert ecumene("env", "get", "/town")["space"]["grid"]["width"] == 10
    assert "column 10" in ecumene("env", "set", "/town", "ann", "1", "--at", "10,0", code=1)
    moved = ecumene("env", "watch", "/town", "--type", "entry_moved", "--from-revision", "1", "--count", "1")
    assert (moved["key"], moved["position"]) == ("ann", [0, 0])


def test_nodes_of_a_graph_go_by_their_names(
    ecumene: Callable[..., Any], server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with sync.connect(server.address) as world:
        world.environment("/city").register(space=Graph.between([("home", "town hall", 2), ("town hall", "park", 1)]))
    ecumene("env", "set", "/city", "ann", "1", "--at", "town hall")
    assert ecumene("env", "get", "/city", "ann")["position"] == [1]
    near = ecumene("near", "/city", "--at", "park", "--radius", "1")
    assert near["near"] == [{"key": "ann", "distance": 1, "position": [1]}]
    said = ecumene("near", "/city", "--at", "parc", "--radius", "1", code=2)
    assert "'parc' is no position" in said and "the name of a node" in said
    assert app.main(["env", "ls", "/city"]) == 0
    assert "1 (town hall)" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["env", "ls"], ["world", "list"], ["run", "spec.yaml"]])
@pytest.mark.parametrize("address", ["localhost", "", ":7170", "localhost:", "127.0.0.1:http", "127.0.0.1:70000"])
def test_an_address_without_host_or_port_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], command: list[str], address: str
) -> None:
    assert app.main([*command, "--server", address]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == f"ecumene: {address!r} is no address of a server"
    assert shown[1].endswith("localhost:7170" if address == "localhost" else "127.0.0.1:7170")


def test_ctrl_c_ends_a_watch_with_code_130(server: RunningServer) -> None:
    command = [sys.executable, "-m", "ecumene.cli", "env", "watch", "--server", server.address, "--json"]
    watching = subprocess.Popen(
        [*command, "--from-revision", "1", "--type", "entry_set"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert app.main(["env", "set", "/", "mood", "calm", "--server", server.address]) == 0
    assert json.loads(watching.stdout.readline())["value"] == "calm"
    watching.send_signal(2)
    _, errors = watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert len(errors.splitlines()) <= 1

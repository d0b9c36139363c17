"""Results: medians, goals, and their JSON."""

from __future__ import annotations

from ecumene.bench.results import Goal, Report, Result


def test_a_goal_counts_only_what_it_names() -> None:
    assert Goal().is_met(0.0, None)
    assert Goal(at_least=10).is_met(10.0, None)
    assert not Goal(at_least=10).is_met(9.9, None)
    assert Goal(at_most=4).is_met(4.0, None)
    assert not Goal(at_most=4).is_met(4.1, None)


def test_a_share_is_of_the_limit_and_left_out_without_one() -> None:
    assert not Goal(share_at_least=0.5).is_met(49.0, 100.0)
    assert Goal(share_at_least=0.5).is_met(50.0, 100.0)
    assert Goal(share_at_least=0.5).is_met(1.0, None)
    assert not Goal(share_at_most=1.3).is_met(1.4, 1.0)


def test_both_parts_of_a_goal_must_be_met() -> None:
    both = Goal(at_least=250_000, share_at_least=0.5)
    assert both.is_met(260_000, 500_000)
    assert not both.is_met(260_000, 600_000)
    assert both.describe() == "≥ 250,000, ≥ 50% of limit"


def test_a_document_has_every_field_and_no_noise() -> None:
    result = Result("wall_s", 1.23456789, "s", 1.0, Goal(at_most=2), {}, [1.23456789, 2], {"cpu_s": 0.1})
    document = Report("round", {"cores": 2}, [result]).to_document()
    assert document["results"] == [
        {
            "name": "wall_s",
            "value": 1.23457,
            "unit": "s",
            "limit": 1.0,
            "goal": {"at_most": 2},
            "meets_goal": True,
            "missed": [],
            "peers": {},
            "absent_peers": {},
            "samples": [1.23457, 2.0],
            "details": {"cpu_s": 0.1},
        }
    ]


def test_without_limit_and_goal_there_is_neither_share_nor_judgement() -> None:
    result = Result("setup_s", 5.0, "s")
    assert result.share is None
    assert result.meets_goal is None
    assert result.to_document()["goal"] is None


def test_a_goal_names_the_parts_that_are_missed_and_leaves_out_what_was_not_measured() -> None:
    goal = Goal(at_least=100, share_at_least=0.5, peers_at_least={"etcd": 20, "redis": 1})
    assert goal.find_missed(150.0, 400.0, {"etcd": 5.0, "redis": 200.0}) == ["≥ 50% of limit", "≥ 1 × redis"]
    assert goal.is_met(150.0, None, {"etcd": 5.0})
    assert not goal.is_met(150.0, None, {"etcd": 8.0})
    assert goal.describe() == "≥ 100, ≥ 50% of limit, ≥ 20 × etcd, ≥ 1 × redis"


def test_a_peer_that_is_absent_is_told_with_its_reason() -> None:
    result = Result("ops", 5.0, "ops/s", peers={"redis": 3.14159265}, absent_peers={"etcd": "not installed"})
    document = result.to_document()
    assert document["peers"] == {"redis": 3.14159}
    assert document["absent_peers"] == {"etcd": "not installed"}


def test_a_share_counts_until_the_server_has_no_more_to_give() -> None:
    goal = Goal(share_at_least=0.9, until_cores=0.95)
    assert not goal.is_met(50.0, 100.0, cores=0.5)
    assert goal.is_met(50.0, 100.0, cores=1.0)
    assert goal.is_met(95.0, 100.0, cores=0.5)
    assert "until the CPU binds" in goal.describe()
    slow = Result("ops_held", 50.0, "ops/s", 100.0, goal, details={"server_cores": 0.5})
    assert slow.meets_goal is False
    assert Result("ops_held", 50.0, "ops/s", 100.0, goal, details={"server_cores": 1.04}).meets_goal is True

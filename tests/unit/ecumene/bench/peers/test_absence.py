"""Peers: medians of those that were measured, reasons for those that were not."""

from __future__ import annotations

from ecumene.bench.peers.absence import PeerAbsentError, PeerSamples


async def test_a_peer_that_fails_is_absent_with_its_reason_and_not_tried_again() -> None:
    peers, tried, notes = PeerSamples(), [], list[str]()

    async def fail() -> float:
        tried.append("etcd")
        raise PeerAbsentError("etcd is not installed")

    async def work() -> float:
        return 3.0 + len(tried)

    for _ in range(2):
        await peers.measure("etcd", fail, notes.append)
        await peers.measure("redis", work, notes.append)
    assert peers.medians() == {"redis": 4.0}
    assert peers.absent == {"etcd": "etcd is not installed"}
    assert tried == ["etcd"]
    assert "peer etcd is absent: etcd is not installed" in notes


async def test_a_peer_that_fails_later_has_no_figure() -> None:
    peers, figures = PeerSamples(), [5.0]

    async def work() -> float:
        if not figures:
            raise PeerAbsentError("it ended")
        return figures.pop()

    for _ in range(2):
        await peers.measure("etcd", work, lambda _: None)
    assert peers.medians() == {}
    assert peers.absent == {"etcd": "it ended"}

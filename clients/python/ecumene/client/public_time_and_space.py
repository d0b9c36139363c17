"""Time and space, for users: clocks, timers and who takes part in them; spaces, and who is near in them."""

from ecumene.client.clock_reports import ClockReporter
from ecumene.client.clocks import Clock, ClockMode, ClockState, MissedTicks, TimerInfo, ns
from ecumene.client.participants import Participant, describe_hearing, hear_clock
from ecumene.client.spaces import (
    Box,
    Disc,
    Geo,
    Graph,
    Grid,
    NeighbourhoodKind,
    NodeSet,
    Plane,
    Position,
    Proximity,
    Region,
    Space,
)
from ecumene.client.surroundings import Near, Nearby, Neighbours, Way
from ecumene.client.timeline import EnvironmentClock

__all__ = [
    "Box",
    "Clock",
    "ClockMode",
    "ClockReporter",
    "ClockState",
    "Disc",
    "EnvironmentClock",
    "Geo",
    "Graph",
    "Grid",
    "MissedTicks",
    "Near",
    "Nearby",
    "NeighbourhoodKind",
    "Neighbours",
    "NodeSet",
    "Participant",
    "Plane",
    "Position",
    "Proximity",
    "Region",
    "Space",
    "TimerInfo",
    "Way",
    "describe_hearing",
    "hear_clock",
    "ns",
]

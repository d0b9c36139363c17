"""For tests of one's own: a world without a server process, on a clock that the test turns by hand.

`behaviour_stand` is for authors of behaviours; `Stand` shows the engine op by op; `serve_in_process` (in
`env_server.testing.in_process`, since it needs gRPC) is a whole server for programs that use the SDK. What a
test declares of clocks and spaces is named here, too.
"""

from env_server.model.operations import ClockAction
from env_server.model.spaces import Box, Disc, Geo, Graph, Grid, Plane, Proximity, Region, Space
from env_server.model.timelines import ClockDeclaration, ClockMode
from env_server.testing.behaviour_stand import BehaviourStand, Running, StillRunning, behaviour_stand
from env_server.testing.stand import Stand

__all__ = [
    "BehaviourStand",
    "Box",
    "ClockAction",
    "ClockDeclaration",
    "ClockMode",
    "Disc",
    "Geo",
    "Graph",
    "Grid",
    "Plane",
    "Proximity",
    "Region",
    "Running",
    "Space",
    "Stand",
    "StillRunning",
    "behaviour_stand",
]

"""What the facets of one world have in common."""

from typing import NamedTuple

from env_server.model.limits import Limits
from env_server.model.ports import Clock
from env_server.pipeline.commits.admission import Admission
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.own_changes import OwnChanges
from env_server.state_tree.tree import Tree


class Parts(NamedTuple):
    """What leases, listeners and simulated time of one world work on."""

    tree: Tree
    commits: Commits
    admission: Admission
    own: OwnChanges
    clock: Clock
    limits: Limits

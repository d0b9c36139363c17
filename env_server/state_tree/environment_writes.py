"""Writes to environments: register and update. Each checks, applies, and writes its rows."""

import math
from dataclasses import replace
from itertools import compress

from env_server.model.changes import EventType
from env_server.model.declaration_documents import FIELDS
from env_server.model.environments import Declaration, Gate, GateCause, Scope
from env_server.model.errors import (
    AlreadyExists,
    GateClosed,
    InvalidRequest,
    NotFound,
    Reason,
)
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment, split_path
from env_server.model.operations import EnvironmentUpdate, RegisterEnvironment
from env_server.model.ports import SpaceIndex
from env_server.model.spaces import Space
from env_server.model.timelines import ClockDeclaration, ClockMode
from env_server.model.values import INT_MAX, INT_MIN, UINT_MAX, Json, check_document
from env_server.model.views import EVERY_GROUP, check_group
from env_server.state_tree.borders import Borders
from env_server.state_tree.concurrency import check_concurrency
from env_server.state_tree.merge import merge_patch
from env_server.state_tree.nodes import Node
from env_server.state_tree.spaces import updated_space
from env_server.state_tree.tree import Tree


def register(tree: Tree, path: str, asked: RegisterEnvironment) -> Written:
    """Creates an environment under an existing parent."""
    nodes, lease = tree.nodes, asked.declaration.lease
    if lease:
        tree.holdings.leases.check(lease)
    found = nodes.by_path.get(path)
    if found is not None:
        if not asked.if_absent or (lease and found.declaration.lease != lease):
            holder = {"lease": str(found.declaration.lease)} if found.declaration.lease else {}
            raise AlreadyExists(Reason.ENVIRONMENT_EXISTS, path=path, **holder)
        return Written(tree.revision, found.version, changed=False)
    segments = split_path(path, tree.limits)
    parent = nodes.find("/" + "/".join(segments[:-1]))
    check_declaration(tree, asked.declaration)
    if asked.declaration.schema is not None:
        tree.schemas.find(asked.declaration.schema)
        tree.schemas.in_use = True
    _check_members_paths(tree, path, asked.declaration.gates)
    _check_participants_path(tree, path, asked.declaration.clock)
    space = asked.declaration.space
    opened = _open(tree, space) if space is not None else (None, None)
    node = nodes.attach(nodes.next_number, parent, segments[-1])
    node.created = node.modified = tree.revision + 1
    node.declare(asked.declaration)
    node.space, node.borders = opened
    tree.roll_ups.declared(node)
    tree.unsaved.environment(node)
    if asked.declaration.clock is not None:
        _begin_clock(tree, node)
    tree.environment_row(node, EventType.ENVIRONMENT_REGISTERED)
    tree.note_grants(node, (), asked.declaration.grants)
    if lease:
        tree.holdings.add(lease, node, "", may_forget=tree.journal is None)
    if tree.journal is not None:

        def undo() -> None:
            tree.note_grants(node, node.declaration.grants, ())
            nodes.detach([node])
            tree.roll_ups.note(node)

        tree.journal.append(undo)
    return Written(tree.revision + 1, 1)


def update(tree: Tree, node: Node, asked: EnvironmentUpdate) -> Written:
    """Changes an environment's declarations; begins a generation of its gate, or opens it."""
    tree.weigh(weigh_declaration(node.declaration))
    changed = _updated(tree, node, asked)
    generation = 0
    if changed is not None:
        check_declaration(tree, changed)
        _check_members_paths(tree, node.path, asked.set_gates)
        _check_participants_path(tree, node.path, asked.clock)
        opened = _open_or_accept(tree, node, changed)
        if looks := _count_looks(tree, node, changed):
            tree.look(looks)
        tree.redeclare(node, changed)
        if asked.clock is not None:
            _begin_clock(tree, node)
        node.space, node.borders = opened
        tree.environment_row(node, EventType.ENVIRONMENT_UPDATED, changed_fields=_name_asked(asked))
        tree.note_due(node)
        if asked.set_gates or asked.remove_gates:
            tree.timed.append(node)  # a deadline may be another one, or gone
    if asked.begin is not None:
        gate = _gate(node, asked.begin.gate)
        _check_bounds(asked.begin.count_target or 0, asked.begin.deadline_ms or 0)
        tree.begin_generation(node, gate, asked.begin.count_target, asked.begin.deadline_ms)
        generation = gate.generation + 1
    if asked.open is not None:
        gate = _gate(node, asked.open.gate)
        if not gate.collecting or gate.generation != asked.open.generation:
            raise GateClosed(node.path, asked=asked.open.generation, generation=gate.generation, opened=gate.opened)
        tree.open_gate(node, gate, GateCause.OPERATION)
    if changed is None and asked.begin is None and asked.open is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "environment", "must change something")
    return Written(tree.revision + 1, node.version, sequence=generation)


def _begin_clock(tree: Tree, node: Node) -> None:
    assert tree.timing is not None, "worlds keep their clocks"
    tree.timing.declared(node)


def _open_or_accept(tree: Tree, node: Node, changed: Declaration) -> tuple[SpaceIndex | None, Borders | None]:
    """What the environment has after an update: its own index or, where it had none, a new one; and its borders.

    Raises:
        InvalidRequest, LimitExceeded, Exhausted.
    """
    if changed.space is None or changed.space is node.declaration.space:
        return node.space, node.borders
    if node.space is None:
        return _open(tree, changed.space)
    tree.look(0)  # before much is looked at
    return node.space, tree.spaces.accept(node.space, changed.space, node.borders, tree.has_looked)


def _open(tree: Tree, space: Space) -> tuple[SpaceIndex, Borders]:
    """Raises as `Spaces.open`, and Exhausted."""
    tree.look(0)  # before much is looked at
    return tree.spaces.open(space, tree.has_looked)


def weigh_declaration(declaration: Declaration) -> int:
    """Bytes that a row repeats which carries the declaration, of what may be large in it."""
    size = len(declaration.config.text)
    return size if declaration.space is None else size + sum(declaration.space.weight)


def _count_looks(tree: Tree, node: Node, changed: Declaration) -> int:
    """How many entries and children a new declaration makes the tree look at."""
    looks = 0
    if not node.goes_on(changed):
        looks += len(node.entries)
        if any(one.scope is Scope.CHILDREN for one in (*node.declaration.aggregates, *changed.aggregates)):
            looks += len(node.children)
    paths = {gate.members_path for gate in changed.gates if gate.collecting}
    for path in paths - {gate.members_path for gate in node.declaration.gates}:
        members = tree.nodes.by_path.get(path)
        looks += len(members.entries) if members is not None else 0
    return looks


def expire_gate(tree: Tree, node: Node, generation: int) -> bool:
    """Opens the gate because its deadline passed; may decline when it is no longer collecting that generation."""
    gate = node.gate
    if gate is None or not gate.collecting or gate.generation != generation:
        return False
    tree.open_gate(node, gate, GateCause.DEADLINE)
    return True


def check_declaration(tree: Tree, declaration: Declaration) -> None:
    """Accepts what an environment may declare.

    Raises:
        InvalidRequest, LimitExceeded.
    """
    limits = tree.limits
    check_document(declaration.config, limits, "config")
    check_concurrency(declaration)
    check_count(len(declaration.labels), "labels_max", limits)
    for name, value in declaration.labels.items():
        check_segment(name, limits, Reason.INVALID_FIELD, "labels")
        if value:
            check_segment(value, limits, Reason.INVALID_FIELD, "labels")
    check_count(len(declaration.aggregates), "aggregates_max", limits)
    names = [aggregate.name for aggregate in declaration.aggregates]
    if len(set(names)) != len(names):
        raise InvalidRequest(Reason.INVALID_FIELD, "aggregates", "must have different names")
    for aggregate in declaration.aggregates:
        check_segment(aggregate.name, limits, Reason.INVALID_FIELD, "aggregates.name")
        check_count(len(aggregate.bounds), "histogram_bounds_max", limits)
        if aggregate.scope is Scope.CHILDREN and (aggregate.in_generation or aggregate.field):
            problem = "belong to aggregates over entries: one over children takes what theirs take"
            raise InvalidRequest(Reason.INVALID_FIELD, "aggregates.in_generation, field", problem)
        if not all(map(math.isfinite, aggregate.bounds)) or list(aggregate.bounds) != sorted(set(aggregate.bounds)):
            raise InvalidRequest(Reason.INVALID_FIELD, "aggregates.bounds", "must be finite and ascend")
    _check_grants(declaration, limits)
    if declaration.clock is not None:
        _check_clock(declaration.clock)
    if len(declaration.gates) > 1:
        raise InvalidRequest(Reason.INVALID_FIELD, "gates", "an environment holds at most one gate")
    for gate in declaration.gates:
        check_segment(gate.name, limits, Reason.INVALID_FIELD, "gates.name")
        _check_bounds(gate.count_target, gate.deadline_ms)


def _check_grants(declaration: Declaration, limits: Limits) -> None:
    check_count(len(declaration.grants), "grants_max", limits)
    groups = [grant.group for grant in declaration.grants]
    if len(set(groups)) != len(groups):
        raise InvalidRequest(Reason.INVALID_FIELD, "grants", "must name different groups")
    for group in groups:
        if group != EVERY_GROUP:
            check_group(group, limits, "grants.group")


def _check_clock(clock: ClockDeclaration) -> None:
    if clock.mode is not ClockMode.EVENT_DRIVEN and clock.participants_path:
        raise InvalidRequest(Reason.INVALID_FIELD, "clock.participants_path", "belongs to an event-driven clock")
    if not (math.isfinite(clock.rate) and clock.rate > 0):
        raise InvalidRequest(Reason.INVALID_FIELD, "clock.rate", "must be finite and above 0")
    if clock.mode is not ClockMode.REALTIME and clock.rate != 1.0:
        raise InvalidRequest(Reason.INVALID_FIELD, "clock.rate", "belongs to a realtime clock")
    for field, ns, least in (("start_ns", clock.start_ns, INT_MIN), ("lookahead_ns", clock.lookahead_ns or 0, 0)):
        if not least <= ns <= INT_MAX:
            problem = "must not be negative" if least == 0 and ns < 0 else "must fit in 64 bits"
            raise InvalidRequest(Reason.INVALID_FIELD, f"clock.{field}", problem)


def _check_bounds(count_target: int, deadline_ms: int) -> None:
    """Accepts what the contract can tell of a gate; a behaviour may ask for more.

    Raises:
        InvalidRequest: INVALID_FIELD.
        TypeError: one is no integer: a defect of a behaviour.
    """
    if type(count_target) is not int or type(deadline_ms) is not int:
        raise TypeError("count_target and deadline_ms of a gate are integers")
    if not 0 <= count_target <= UINT_MAX or not 0 <= deadline_ms <= INT_MAX:
        raise InvalidRequest(Reason.INVALID_FIELD, "gates", "count_target and deadline_ms must fit and not be negative")


def _check_members_paths(tree: Tree, path: str, gates: tuple[Gate, ...]) -> None:
    """Accepts whose members new gates of the environment at `path` wait for.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    for gate in gates:
        if not gate.members_path:
            continue
        if gate.members_path == path:
            raise InvalidRequest(
                Reason.INVALID_FIELD, "gates.members_path", "must be another environment than the gate's"
            )
        if gate.members_path not in tree.nodes.by_path:
            raise InvalidRequest(Reason.INVALID_FIELD, "gates.members_path", f"there is no {gate.members_path}")


def _check_participants_path(tree: Tree, path: str, clock: ClockDeclaration | None) -> None:
    """Accepts where a new clock of the environment at `path` looks for its participants.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    where = clock.participants_path if clock is not None else ""
    if where not in ("", path) and where not in tree.nodes.by_path:
        raise InvalidRequest(Reason.INVALID_FIELD, "clock.participants_path", f"there is no {where}")


def _gate(node: Node, name: str) -> Gate:
    gate = node.gate
    if gate is None or (name and gate.name != name):
        raise NotFound(Reason.GATE_NOT_FOUND, path=node.path, gate=name)
    return gate


def _updated(tree: Tree, node: Node, asked: EnvironmentUpdate) -> Declaration | None:
    """The declaration with the update applied; None when only the gate is to be moved on."""
    before = node.declaration
    labels = dict(before.labels)
    for name in asked.remove_labels:
        labels.pop(name, None)
    labels.update(asked.set_labels)
    config = before.config
    if asked.merge_config is not None:
        check_document(asked.merge_config, tree.limits, "merge_config")
        config = Json.of(merge_patch(before.config.document, asked.merge_config.document))
    aggregates = {aggregate.name: aggregate for aggregate in before.aggregates}
    for name in asked.remove_aggregates:
        if aggregates.pop(name, None) is None:
            raise NotFound(Reason.AGGREGATE_NOT_FOUND, path=node.path, aggregate=name)
    aggregates.update((aggregate.name, aggregate) for aggregate in asked.set_aggregates)
    gates = {gate.name: gate for gate in before.gates}
    for name in asked.remove_gates:
        if gates.pop(name, None) is None:
            raise NotFound(Reason.GATE_NOT_FOUND, path=node.path, gate=name)
    for gate in asked.set_gates:
        known = gates.get(gate.name)
        gates[gate.name] = (
            gate
            if known is None
            else replace(
                known,
                count_target=gate.count_target,
                deadline_ms=gate.deadline_ms,
                members_path=gate.members_path,
            )
        )
    grants = {grant.group: grant for grant in before.grants}
    for group in asked.remove_grants:
        grants.pop(group, None)
    grants.update((grant.group, grant) for grant in asked.set_grants)
    if not _name_asked(asked):
        return None
    if asked.clock is not None and before.clock is not None:
        raise AlreadyExists(Reason.CLOCK_EXISTS, path=node.path)
    return replace(
        before,
        labels=labels,
        config=config,
        aggregates=tuple(aggregates.values()),
        gates=tuple(gates.values()),
        grants=tuple(grants.values()),
        clock=before.clock if asked.clock is None else asked.clock,
        space=updated_space(node, before, asked),
    )


def _name_asked(asked: EnvironmentUpdate) -> tuple[str, ...]:
    """The parts of the declaration that the update is about."""
    parts = (
        asked.set_labels or asked.remove_labels,
        asked.merge_config is not None,
        asked.set_aggregates or asked.remove_aggregates,
        asked.set_gates or asked.remove_gates,
        asked.set_grants or asked.remove_grants,
        asked.clock is not None,
        asked.space is not None
        or asked.set_regions
        or asked.remove_regions
        or asked.set_proximities
        or asked.remove_proximities,
    )
    return tuple(compress(FIELDS, parts))

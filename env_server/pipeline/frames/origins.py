"""Origins: who caused which row. Written into the open group when a frame's pass, or a late op of it, has ended.

The columns of a group that say who caused a change (producer and number, actor, cause, principal) may be shorter than
the others while ops are applied; whoever seals the group fills up what nobody claims. Which session sent a row is told
by its producer, or, where ops name producers of their own, once for all rows of a pass.
"""

from env_server.model.changes import Changes, SentRows
from env_server.model.frames import Frame


def pad_origins(changes: Changes, row: int) -> None:
    """Says that nobody caused the rows up to `row` of which nothing is said yet."""
    missing = row - len(changes.producers)
    if missing > 0:
        _extend(changes, missing, "", 0, "", "", "")


def attribute_rows(
    changes: Changes,
    first_row: int,
    producer: str = "",
    seq: int = 0,
    actor: str = "",
    cause: str = "",
    principal: str = "",
) -> None:
    """Fills the columns of the rows from `first_row` on with one origin."""
    pad_origins(changes, first_row)
    _extend(changes, len(changes) - len(changes.producers), producer, seq, actor, cause, principal)


def attribute_pass(changes: Changes, frame: Frame, first_row: int, owners: list[int] | None) -> None:
    """Fills the columns of the rows from `first_row` on; `owners` gives the op of each, None = op i wrote row i."""
    rows = len(changes) - first_row
    pad_origins(changes, first_row)
    changes.principals.extend([frame.principal] * rows)
    for column, source, constant in (
        (changes.producers, frame.producers, frame.client_id),
        (changes.producer_seqs, frame.producer_seqs, frame.seq),
        (changes.actors, frame.actors, ""),
        (changes.causes, frame.causes, ""),
    ):
        if source is None:
            column.extend([constant] * rows)  # type: ignore[list-item]
        elif owners is None:
            column.extend(source)  # type: ignore[arg-type]
        else:
            column.extend([source[op] for op in owners])  # type: ignore[misc]
    if frame.producers is not None and "" in frame.producers:
        _fill_in_frame_identity(changes, frame, first_row)
    if frame.producers is not None or frame.sender:
        _name_sender(changes, frame, first_row)


def attribute_op(changes: Changes, frame: Frame, first_row: int, index: int) -> None:
    """Fills the columns of the rows from `first_row` on, all written by one op."""
    producer, seq = identity_of(frame, index)
    if not producer:
        producer, seq = frame.client_id, frame.seq
    actor = frame.actors[index] if frame.actors is not None else ""
    cause = frame.causes[index] if frame.causes is not None else ""
    attribute_rows(changes, first_row, producer, seq, actor, cause, frame.principal)
    if frame.producers is not None or frame.sender:
        _name_sender(changes, frame, first_row)


def identity_of(frame: Frame, index: int) -> tuple[str, int]:
    """The op's own producer and number; ("", 0) when it goes by the frame's."""
    if frame.producers is None or frame.producer_seqs is None or not frame.producers[index]:
        return "", 0
    return frame.producers[index], frame.producer_seqs[index]


def _extend(changes: Changes, rows: int, producer: str, seq: int, actor: str, cause: str, principal: str) -> None:
    changes.producers.extend([producer] * rows)
    changes.producer_seqs.extend([seq] * rows)
    changes.actors.extend([actor] * rows)
    changes.causes.extend([cause] * rows)
    changes.principals.extend([principal] * rows)


def _name_sender(changes: Changes, frame: Frame, first_row: int) -> None:
    """Says which session sent the rows from `first_row` on, whatever producers they name."""
    sender, rows = frame.client_id or frame.sender, len(changes) - first_row
    if not sender or not rows:
        return
    last = changes.sent[-1] if changes.sent else None
    if last is not None and last.client_id == sender and last.first_row + last.rows == first_row:
        changes.sent[-1] = last._replace(rows=last.rows + rows)
    else:
        changes.sent.append(SentRows(first_row, rows, sender))


def _fill_in_frame_identity(changes: Changes, frame: Frame, first_row: int) -> None:
    for row in range(first_row, len(changes)):
        if not changes.producers[row]:
            changes.producers[row] = frame.client_id
            changes.producer_seqs[row] = frame.seq

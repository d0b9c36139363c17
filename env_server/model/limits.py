"""Every bound of a world, named. An error about one carries the field's name, its value and what was asked."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one world; the last word of a name is its side, the word before it its unit."""

    path_bytes_max: int = 400
    path_depth_max: int = 16
    segment_bytes_max: int = 128
    value_bytes_max: int = MIB
    json_depth_max: int = 64
    labels_max: int = 64
    aggregates_max: int = 32
    histogram_bounds_max: int = 256
    stream_items_max: int = 10_000
    """Items that a stream keeps when its creator does not say."""
    stream_items_limit_max: int = 1_000_000

    frame_ops_max: int = 4096
    frame_bytes_max: int = 4 * MIB
    transaction_ops_max: int = 128
    transaction_bytes_max: int = MIB
    companions_max: int = 16
    preconditions_max: int = 16
    page_items_max: int = 10_000
    page_items: int = 1000
    """Items of a page when the caller does not say."""
    page_bytes_max: int = 3 * MIB
    """Of a page's values, roughly; a page ends before it, and holds at least one row."""
    pages_open_max: int = 256
    page_idle_s: float = 30.0

    queue_ops_max: int = 10_000
    """Ops of the whole world that may wait behind held keys or for a free slot."""
    concurrency_max: int = 1024
    """Behaviour operations between start and return, in the whole world."""
    operation_timeout_s: float = 30.0
    retry_delay_ms: int = 50
    """Advice to callers who met a full queue or held keys."""

    session_frames_kept_max: int = 64
    sessions_max: int = 10_000
    """Client ids whose answers are kept; beyond it the longest idle one is forgotten."""
    producers_max: int = 20_000_000
    request_ids_max: int = 1_000_000
    """Bare request ids remembered, the newest ones."""
    request_id_age_s: float = 86_400.0

    watches_per_session_max: int = 10_000
    watch_credit_events: int = 65_536
    watch_credit_bytes: int = 8 * MIB
    ring_bytes_max: int = 16 * MIB
    """As encoded; decoded, as the ring holds them, groups take about eight times as much memory."""
    message_bytes_max: int = 3_900_000
    """Largest message sent; foreign clients receive 4 MiB by default."""
    heartbeat_ms: int = 5_000

    group_repeated_bytes_max: int = 64 * MIB
    """Of what the changes of a commit group repeat of stored documents, beyond what came in: whole documents that were
    merged, configs of environments, results of operations. Further such ops are told to come again."""
    log_bytes_max: int = 4096 * MIB
    log_age_s: float = 86_400.0
    replay_ops_max: int = 500_000
    """Changes that a restart replays at most: the state tables are never further behind."""
    map_bytes: int = 32 * 1024 * MIB
    quota_warn: float = 0.80
    """Part of the room, map or disk, from which on the world is said to run low."""
    quota_refuse: float = 0.90
    """Part of the room from which on writes are refused; deletions and compaction go on."""

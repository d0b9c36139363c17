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
    grants_max: int = 64
    space_bytes_max: int = MIB
    """Of a space as it is declared, regions and proximities included, roughly."""
    move_looks_max: int = 16_384
    """Entries, and what leads to them, that a move looks at where it leads to, for all proximities together; into a
    denser crowd it is told to come again."""
    schema_bytes_max: int = 65_536
    schema_parts_max: int = 10_000
    """Of an entry schema, with references followed."""
    schema_work_max: int = 64 * MIB
    """Parts of a schema times bytes of a value that it is to check."""
    session_groups_max: int = 10_000
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

    pages_rows_max: int = 8_000_000
    """Rows that open listings hold together; beyond it the longest idle one is forgotten."""
    slow_reads_max: int = 64
    """Queries under way that take several steps: long listings, reads of the past."""
    slow_reads_rows_max: int = 4_000_000
    """Rows that they hold together; a single one may hold more."""
    past_scan_bytes_max: int = 64 * MIB
    """Of the log that one read of an entry's past goes through; its answer says where to go on."""

    queue_ops_max: int = 10_000
    """Ops of the whole world that may wait behind held keys or for a free slot."""
    concurrency_max: int = 1024
    """Behaviour operations between start and return, in all worlds of a server."""
    operation_timeout_s: float = 30.0
    call_depth_max: int = 8
    """Operations that call one another, beyond the first."""
    listener_depth_max: int = 16
    """Listeners in a chain, each caused by the one before it; the event that would start one more is not heard."""
    listeners_running_max: int = 256
    """Listeners between their turn and their end, in the whole world; never more than half of `concurrency_max`."""
    listener_lag_revisions_max: int = 1_000_000
    """So far behind the head a listener skips what it has not heard, with an event that says so."""
    retry_delay_ms: int = 50
    """Advice to callers who met a full queue or held keys."""

    session_frames_kept_max: int = 64
    session_answers_bytes_max: int = 4 * MIB
    """Of the outcomes that a client's kept answers list, roughly as encoded (in memory up to fifteen times as much);
    beyond it those of the oldest frames are dropped."""
    sessions_max: int = 10_000
    """Client ids whose answers are kept; beyond it the longest idle one without a stream is forgotten."""
    producers_max: int = 20_000_000
    request_ids_max: int = 1_000_000
    """Bare request ids remembered, the newest ones."""
    request_id_age_s: float = 86_400.0

    leases_max: int = 100_000
    leases_remembered_max: int = 65_536
    """Leases that have ended and are told apart from such that never were, the newest ones."""
    lease_ttl_ms_min: int = 1_000
    lease_ttl_ms_max: int = 86_400_000
    lease_holder_bytes_max: int = 64
    lease_tick_ms: int = 250
    """Leases end at ticks of this length, so at most that much late."""
    lease_late_ms_max: int = 250
    """A tick that comes later than this stands for a stall of the server; that time counts for no lease."""
    lease_sweep_entries_max: int = 500
    """Leases that end, and entries that go with ended ones, in one step; a revision holds no more of them."""
    lease_sweep_interval_ms: int = 10
    """Between two such steps, so that others have their turn: at most 50,000 entries go in a second."""

    participant_filters_max: int = 15
    """Of one participant: a watch of as many, and of the clock's own changes, has them all."""
    participants_max: int = 10_000
    """Of one event-driven clock; with more it stands."""
    participant_wait_ms: int = 20
    """A clock that waits for what is on its way in the world looks again after this long at the latest."""

    timers_max: int = 100_000
    timer_payload_bytes_max: int = 16_384
    """It is told, and logged, with each firing."""
    timer_slice_max: int = 512
    """Timers that fire in one step, so that others have their turn; the next step comes when those are on the disk."""
    timer_slice_bytes_max: int = MIB
    """Of their payloads."""
    timer_late_ms_max: int = 250
    """Ticks of a realtime clock that come later than this count as missed by timers that skip such."""

    subscriptions_max: int = 10_000
    subscription_partitions_max: int = 256
    consumers_per_subscription_max: int = 256
    subscription_lag_revisions: int = 10_000_000
    """That a subscription may stay behind the world when its creator does not say."""
    subscription_lag_bytes_max: int = 8192 * MIB
    """Of the log when it begins where one subscription stands, beyond its own bounds; never more than a quarter of the
    map."""
    ack_timeout_ms: int = 30_000
    """Of a subscription whose creator does not say."""
    ack_timeout_ms_min: int = 1_000
    ack_timeout_ms_max: int = 3_600_000
    outstanding_events: int = 10_000
    """Events that a consumer holds without acknowledging them when it does not say; a larger revision goes alone."""
    outstanding_events_max: int = 100_000

    space_nodes_max: int = 100_000
    """Of a graph."""
    space_edges_max: int = 500_000
    space_looks_max: int = 262_144
    """Entries, nodes, edges and parts of a space that one query looks at; on two slow cores about 0.2 s."""
    neighbours_looks_max: int = 128 * 262_144
    """Those that all rows of one table of neighbours look at together: half a minute of one core, in small steps."""
    regions_max: int = 1_000
    proximities_max: int = 16

    streams_max: int = 10_000
    """Sessions, monitors and consumers of a world that live at a time."""
    server_streams_max: int = 40_000
    """Those of all worlds, and the ones that have not said yet what they want."""
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
    group_answers_bytes_max: int = 64 * MIB
    """Of the outcomes that the answers in a commit group list; further frames are told to come again."""
    group_looks_max: int = 262_144
    """Entries and environments that the changes of a commit group look at beside those that they change, and parts of
    spaces that they declare: a new aggregate counts all that is there. Further such ops are told to come again."""
    ahead_ms_max: int = 0
    """That answers may be ahead of the disk; 0 = nothing is answered before it is durable."""
    log_bytes_max: int = 4096 * MIB
    log_age_s: float = 86_400.0
    replay_ops_max: int = 500_000
    """Changes that a restart replays at most: the state tables are never further behind."""
    map_bytes: int = 32 * 1024 * MIB
    quota_warn: float = 0.80
    """Part of the room, map or disk, from which on the world is said to run low."""
    quota_refuse: float = 0.90
    """Part of the room from which on writes are refused; deletions and compaction go on."""

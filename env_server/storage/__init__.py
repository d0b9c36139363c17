"""How a world survives: the log that is the commit, and the state tables beside it.

An op's way through this folder, in the order of its files:

    layout        what is on disk: tables, keys, format
    records       one commit group as bytes, and back
    outcomes, declarations, rows   the other forms inside records and state tables
    groups        a group sealed: record, chunk and what the metadata needs of them
    log_reading   records in order: replay at start, reading from a revision
    lmdb_tables   opening a directory, and refusing one that must not be opened
    lmdb_commit   what one commit writes
    writer        the thread that commits
    lmdb_log      LmdbCommitLog, the commit log of a server
    memory        MemoryCommitLog, the same for a simulated engine
"""

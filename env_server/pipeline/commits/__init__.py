"""From applied to durable: groups, room on the disk, the state tables, what the log keeps and forgets."""

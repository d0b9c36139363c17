"""Subscriptions: cursors on a world's events that the server keeps, and the consumers that share them.

subscriptions   all of a world: made, sought, acknowledged, lapsed, deleted
consuming       who consumes: attached, fenced, replaced; which partitions are whose (with assignment, terms)
consumer        what is delivered to one of them (with outstanding, deadline, partitions)
passing         cursors that move by themselves, because nothing matches
retention       what the log keeps for their sake, and who stays too far behind (with lowest)
facts           how they are stored
"""

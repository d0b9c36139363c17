"""Other systems that do the same work, measured in the same run: their servers, environments and loads.

A peer that cannot be had is reported as absent, with the reason; nothing else fails because of it.
"""

"""Recorded tables as files for other programs."""

from ecumene.sim.exporting.export import FORMATS, Exported, export_tables

__all__ = ["FORMATS", "Exported", "export_tables"]

"""Defects that were caught at an edge: one id each, in the record or in place of it; the log has the rest."""

from __future__ import annotations

import logging
import secrets

logger = logging.getLogger("ecumene.runtime")

TRACEBACKS_MAX = 20


class Incidents:
    """Of one part. An event that is poison for a million agents costs the log a few tracebacks, not a million."""

    def __init__(self) -> None:
        self.noted = 0

    def note(self, where: str, defect: BaseException) -> str:
        """Tell of a defect, `where` being what it ended; returns its id."""
        incident = secrets.token_hex(8)
        self.noted += 1
        if self.noted <= TRACEBACKS_MAX:
            logger.error("incident %s: %s", incident, where, exc_info=defect)
        if self.noted == TRACEBACKS_MAX:
            logger.error("further incidents of this part stand in its records alone")
        return incident

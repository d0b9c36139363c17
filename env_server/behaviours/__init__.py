"""Behaviours: kinds of environments with operations and listeners of their own. What an author needs is named here."""

from env_server.behaviours.behaviour import Behaviour, Target, listener, operation
from env_server.behaviours.context import Context
from env_server.behaviours.event import Event
from env_server.behaviours.round_game import RoundGame
from env_server.model.changes import EventType

__all__ = ["Behaviour", "Context", "Event", "EventType", "RoundGame", "Target", "listener", "operation"]

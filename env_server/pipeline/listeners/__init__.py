"""Listeners of behaviours: who has to hear which event, and how far each has heard."""

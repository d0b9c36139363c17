"""Who agents are, as texts: put together from their attributes, or written by a model, and how different they are."""

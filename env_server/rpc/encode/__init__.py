"""From the model to messages, and from errors to statuses."""

"""From messages to the model; what is wrong with them is told by field."""

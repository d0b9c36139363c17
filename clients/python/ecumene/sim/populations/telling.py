"""Attributes of people in words: as personas, backgrounds and reports tell them."""

from __future__ import annotations

Value = str | int | float


def write_value(value: Value) -> str:
    """A value as people write it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_name(attribute: str) -> str:
    """An attribute's name as people write it."""
    return attribute.replace("_", " ")


def tell_attribute(attribute: str, value: Value) -> str:
    """`years of school: 12`."""
    return f"{write_name(attribute)}: {write_value(value)}"

"""Colours of pictures, once for light and once for dark pages."""

from __future__ import annotations

from dataclasses import dataclass

_DARK = "#10243a"


@dataclass(frozen=True, slots=True)
class Theme:
    """What pictures are drawn in.

    Attributes:
        page: behind them. ink, muted: of texts. line, grid: of axes and of what lies behind figures.
        mean, target: of a run's means and winning numbers. theory, people: of what they are compared with.
        failed: of turns that did not act.
        colours: of groups and conditions, in their order.
    """

    page: str
    ink: str
    muted: str
    line: str
    grid: str
    mean: str
    target: str
    theory: str
    people: str
    failed: str
    colours: tuple[str, ...]


# Okabe and Ito's palette, told apart with most kinds of colour blindness; lighter where the page is dark.
LIGHT = Theme(
    page="#ffffff",
    ink="#222222",
    muted="#6b7178",
    line="#bbbbbb",
    grid="#e6e6e6",
    mean="#111111",
    target="#c1121f",
    theory="#0072b2",
    people="#8a8a8a",
    failed="#d55e00",
    colours=("#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#d55e00", "#b8a90a", "#666666"),
)
DARK = Theme(
    page="#16181b",
    ink="#e6e8ea",
    muted="#a3abb3",
    line="#565d65",
    grid="#2c3136",
    mean="#f5f6f7",
    target="#ff6b6b",
    theory="#56b4e9",
    people="#9aa1a8",
    failed="#ff8c42",
    colours=("#3d9be0", "#8fd0f5", "#22c295", "#f0b840", "#e29cc4", "#ff8c42", "#f0e442", "#a6a6a6"),
)


def shade(place: int, count: int) -> tuple[str, str]:
    """One of some ordered answers, light to dark: its background, and ink that is read on it. The same on any page."""
    share = place / max(count - 1, 1)
    # Between two blues of one hue, so that order is seen without a legend, and in grey, too.
    mixed = [round(low + (high - low) * share) for low, high in zip((211, 229, 245), (8, 64, 120), strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed), _DARK if share < 0.5 else "#ffffff"


def tint(place: int) -> tuple[str, str]:
    """One of some answers without order: its background, and ink that is read on it."""
    pairs = (("#9ecae1", _DARK), ("#fdc086", _DARK), ("#a6d8b4", _DARK), ("#e3b5d6", _DARK), ("#fff2a8", _DARK))
    return (*pairs, ("#c7c9d9", _DARK), ("#7c8894", "#ffffff"))[place % (len(pairs) + 2)]

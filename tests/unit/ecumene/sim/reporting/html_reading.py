"""Reads a page as a browser or a screen reader would, and refuses what it must not hold."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

OUTER = ("html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "div")
INNER = ("details", "summary", "h1", "h2", "p", "bdi", "pre", "figure", "picture", "source", "img", "figcaption")
LISTS = ("nav", "ul", "li", "a", "dl", "dt", "dd", "strong", "span")
TABLES = ("table", "caption", "thead", "tbody", "tr", "th", "td")
ALLOWED = frozenset((*OUTER, *INNER, *LISTS, *TABLES))
EMPTY = frozenset(("meta", "img", "source"))


class PageReader(HTMLParser):
    """Texts by tag; asserts that the page is well formed, self-contained and accessible."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.images: list[dict[str, str | None]] = []
        self.anchors: set[str | None] = set()
        self.ids: set[str | None] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Checks each attribute that could load or run anything."""
        given = dict(attrs)
        assert tag in ALLOWED, tag
        assert (given.get("href") or "#").startswith("#")
        self.anchors |= {given["href"][1:]} if given.get("href") else set()
        self.ids |= {given["id"]} if given.get("id") else set()
        assert (given.get("srcset") or "data:").startswith("data:")
        assert not any(name.startswith("on") for name in given), given
        assert (given.get("src") or "data:").startswith("data:")
        if tag == "img":
            assert given["alt"]
            self.images.append(given)
        if tag == "th":
            assert given["scope"] in ("row", "col")
        if tag not in EMPTY:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        """Checks that tags are closed in their order."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text belongs to all that is open."""
        for tag in set(self.open):
            self.texts[tag][-1] += data


def read_page(path: Path) -> PageReader:
    """Read a page that must be whole."""
    reader = PageReader()
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    reader.feed(text)
    reader.close()
    assert reader.open == []
    assert len(reader.texts["h1"]) == 1
    assert reader.anchors <= reader.ids
    assert len(reader.texts.get("table", [])) == len(reader.texts.get("caption", []))
    return reader

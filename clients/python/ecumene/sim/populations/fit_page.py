"""The fit of a population as one HTML page that needs nothing else: tables, and a plot for each attribute."""

from __future__ import annotations

import html

from ecumene.sim.populations.fit import AttributeFit, PopulationFit

_STYLE = """
:root{--ink:#1c2330;--soft:#667085;--line:#e4e7ec;--have:#3b6fb6;--want:#d97706;--bad:#b42318}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);max-width:62rem;margin:2.5rem auto;padding:0 1.2rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .2rem}p{margin:.2rem 0 1rem;color:var(--soft)}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.bad{color:var(--bad);font-weight:600}
.row{display:grid;grid-template-columns:15rem 1fr 10rem;gap:.8rem;align-items:center}
.row span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}.row .n{color:var(--soft);text-align:right}
.bar{position:relative;height:.85rem;background:#f4f6f9}
.bar i{position:absolute;inset:0 auto 0 0;background:var(--have)}
.bar b{position:absolute;top:-2px;bottom:-2px;width:3px;margin-left:-1px;background:var(--want)}
.key i,.key b{display:inline-block;width:.8rem;height:.8rem;background:var(--have);margin:0 .3rem 0 1rem}
.key b{width:3px;background:var(--want)}
"""


def write_page(fit: PopulationFit, title: str) -> str:
    """The page."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style><h1>{html.escape(title)}</h1>",
        f"<p>{fit.agents:,} agents, seed {fit.seed}, sampling {fit.sampling}; groups: ",
        html.escape(", ".join(f"{name} {count:,}" for name, count in fit.groups.items())),
        "</p>",
        _write_table(
            ["attribute", "case", "agents", "test", "statistic", "p", "furthest count", "fit"],
            [[*list_cells(each), describe_fit(each)] for each in fit.attributes],
        ),
    ]
    if fit.pairs:
        rows = [
            [f"{each.one}, {each.other}", each.measure, f"{each.observed:.3f}", f"{each.wanted:.3f}"]
            for each in fit.pairs
        ]
        parts += [
            "<h2>What was drawn together</h2><p>r: correlation of numbers; v: Cramér's V, numbers by tenths.</p>",
            _write_table(["attributes", "measure", "population", "wanted"], rows),
        ]
    parts.append("<h2>Attribute by attribute</h2><p class=key><i></i>population<b></b>wanted</p>")
    parts += [_draw(each) for each in fit.attributes]
    return "".join(parts) + "</html>\n"


def list_cells(each: AttributeFit) -> list[str]:
    """A row of a table: attribute, case, agents, test, statistic, p, furthest count."""
    deviation = "" if each.deviation is None else f"{each.deviation:.2f}"
    numbers = ["", ""] if each.test == "one value" else [f"{each.statistic:.4g}", f"{each.p:.3f}"]
    return [each.name, each.case, f"{each.agents:,}", each.test, *numbers, deviation]


def describe_fit(each: AttributeFit) -> str:
    """In a word or two."""
    if each.fits:
        return "fits"
    return "changed by a constraint" if each.is_changed else "does not fit"


def _write_table(head: list[str], rows: list[list[str]]) -> str:
    numeric = [
        all(row[place].replace(",", "").lstrip("-")[:1].isdigit() or not row[place] for row in rows)
        for place in range(len(head))
    ]
    marks = [" class=n" if is_numeric else "" for is_numeric in numeric]
    top = "".join(f"<th{mark}>{html.escape(name)}</th>" for name, mark in zip(head, marks, strict=True))
    body = []
    for row in rows:
        cells = []
        for cell, mark in zip(row, marks, strict=True):
            shown = " class=bad" if cell == "does not fit" else mark
            cells.append(f"<td{shown}>{html.escape(cell)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tr>{top}</tr>{''.join(body)}</table>"


def _draw(each: AttributeFit) -> str:
    title = f"{each.name}: {each.case}" if each.case else each.name
    most = max((max(have, want) for _, have, want in each.bars), default=0) or 1
    rows = [
        f"<div class=row><span title='{html.escape(label, quote=True)}'>{html.escape(label)}</span>"
        f"<div class=bar><i style='width:{have / most:.2%}'></i><b style='left:{want / most:.2%}'></b></div>"
        f"<span class=n>{have:,.0f} of {want:,.1f}</span></div>"
        for label, have, want in each.bars
    ]
    return f"<h2>{html.escape(title)}</h2>{''.join(rows)}"

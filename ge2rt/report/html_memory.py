"""The page's section about memory: temporaries in the arena over the steps, and all buffers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ge2rt.report.records import BufferRecord, Report
from ge2rt.report.svg import hues_of
from ge2rt.report.text import bytes_text

_WIDE, _HIGH = 1000.0, 220.0


def memory_section(report: Report) -> str:
    """Chart, figures and tables."""
    memory = report.memory
    temps = [buffer for buffer in memory.buffers if buffer.offset >= 0]
    guests = [buffer for buffer in memory.buffers if buffer.host >= 0]
    others = [buffer for buffer in memory.buffers if buffer.offset < 0 and buffer.host < 0]
    if temps:
        told = (
            f"{len(temps)} temporaries share an arena of {bytes_text(memory.workspace)}; side by"
            f" side they would take {bytes_text(memory.apart)}: {bytes_text(memory.saved)} saved."
        )
        shown = f'<p class="told">{told}</p>{_chart(report, temps)}' + _details(
            f"{len(temps)} temporaries", _table(temps, placed=True)
        )
    else:
        told = "No arena" if guests else "No temporaries: nothing is kept between steps"
        shown = f'<p class="told">{told}.</p>'
    if guests:
        shown += _details(
            f"{len(guests)} temporaries in the memory of outputs that are not written yet",
            _table(guests, placed=False),
        )
    given = sum(buffer.bytes for buffer in others if buffer.kind == "input")
    made = sum(buffer.bytes for buffer in others if buffer.kind == "output")
    name = f"{len(others)} inputs and outputs, {bytes_text(given)} in, {bytes_text(made)} out"
    return (
        '<section id="memory" aria-labelledby="memory-h"><h2 id="memory-h">Memory</h2>'
        f"{shown}{_details(name, _table(others, placed=False))}</section>"
    )


def _details(name: str, inner: str) -> str:
    return f'<details class="quiet"><summary>{escape(name)}</summary>{inner}</details>'


def _chart(report: Report, temps: Sequence[BufferRecord]) -> str:
    """Steps to the right, bytes of the arena upwards."""
    columns, top = len(report.steps), max(report.memory.workspace, 1)
    parts, hues = [], hues_of(report.steps)
    for buffer in temps:
        x = buffer.first / columns * _WIDE
        width = (buffer.last - buffer.first + 1) / columns * _WIDE
        height = max(buffer.bytes / top * _HIGH, 1.0)
        y = _HIGH - buffer.offset / top * _HIGH - height
        told = (
            f"%{buffer.id}: {buffer.type}, {bytes_text(buffer.bytes)} at {buffer.offset},"
            f" steps {buffer.first} to {buffer.last}"
        )
        parts.append(
            f'<rect class="k{hues[buffer.first]}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
            f' height="{height:.1f}"><title>{escape(told)}</title></rect>'
        )
    return (
        f'<div class="chart"><span class="most">{bytes_text(report.memory.workspace)}</span>'
        f'<svg viewBox="0 0 {_WIDE:.0f} {_HIGH:.0f}" preserveAspectRatio="none" role="img"'
        f' aria-label="Temporaries in the arena over the steps">{"".join(parts)}</svg>'
        f'<span class="left">step 0</span><span class="right">step {columns - 1}</span></div>'
    )


def _table(buffers: Sequence[BufferRecord], *, placed: bool) -> str:
    heads = '<th scope="col">Buffer</th><th scope="col">Type</th>'
    heads += "".join(
        f'<th scope="col"{right}>{name}</th>'
        for name, right in (
            ("Bytes", ' class="n"'), ("Offset", ' class="n"') if placed else ("Kind", ""),
            ("Steps", ""),
        )
    )  # fmt: skip
    rows = "".join(
        f'<tr><td>%{b.id}</td><td><code>{escape(b.type)}</code></td><td class="n">{b.bytes:,}</td>'
        f"{_place(b, placed=placed)}<td>{_life(b)}</td></tr>"
        for b in buffers
    )
    return f'<table class="buffers"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _place(buffer: BufferRecord, *, placed: bool) -> str:
    if placed:
        return f'<td class="n">{buffer.offset:,}</td>'
    if buffer.host >= 0:
        return f"<td>in %{buffer.host}</td>"
    return f"<td>{escape(f'{buffer.kind} {buffer.index}')}</td>"


def _life(buffer: BufferRecord) -> str:
    if buffer.first < 0:
        return "none"
    return str(buffer.first) if buffer.first == buffer.last else f"{buffer.first} to {buffer.last}"

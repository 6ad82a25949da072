"""A report as one HTML page: nothing is loaded, it works from a file, by keyboard, light and dark.

Everything that comes from outside (names, code, messages) is escaped here or in the modules that
this one puts together; the page forbids itself to load anything.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files

from ge2rt.report.html_kernels import kernel_section
from ge2rt.report.html_memory import memory_section
from ge2rt.report.records import GraphRecord, Report, StepRecord
from ge2rt.report.svg import Drawing, draw_graph, draw_steps, graph_style, hues_of
from ge2rt.report.text import (
    bytes_text,
    clip,
    rate_text,
    seconds_text,
    share_text,
    summary,
)

_TEXT_MOST = 160_000  # characters of a graph's or a plan's text
_SIGNATURE_MOST = 400
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(report: Report) -> str:
    """The page's text."""
    title = escape(f"{report.name} on {report.device} - ge2rt")
    style, script = graph_style() + _asset("page.css"), _asset("page.js")
    body = [
        _header(report), _summary(report), _steps(report), _graphs(report),
        kernel_section(report), memory_section(report), _plan(report),
    ]  # fmt: skip
    return "\n".join([
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{title}</title>",
        f"<style>\n{style}</style></head><body>",
        '<a class="skip" href="#steps">Skip to the steps</a>',
        *body,
        f"<script>\n{script}</script></body></html>",
        "",
    ])  # fmt: skip


def _asset(name: str) -> str:
    return files("ge2rt.report").joinpath(name).read_text("utf-8")


# -- header and summary --------------------------------------------------------------------------


def _header(report: Report) -> str:
    links = "".join(
        f'<a href="#{anchor}">{name}</a>'
        for anchor, name in (
            ("steps", "Steps"), ("graph", "Graph"), ("kernels", "Kernels"), ("memory", "Memory"),
            ("plan", "Plan"),
        )
    )  # fmt: skip
    return (
        f'<header><div class="top"><p class="brand">ge2rt report</p><nav aria-label="Sections">'
        f"{links}</nav></div><h1>{escape(report.name)}</h1>{_signature(report)}</header><main>"
    )


def _signature(report: Report) -> str:
    where = f"on {escape(report.device)} ({escape(report.arch)})"
    full = escape(report.signature)
    captured = len(report.constants)
    also = f", {captured} captured array{'s' * (captured > 1)}" if captured else ""
    if len(report.signature) <= _SIGNATURE_MOST:
        return f'<p class="signature"><code>{full}</code> <span>{where}{also}</span></p>'
    count = sum(node.op == "input" for node in report.before.nodes) - captured
    return (
        f'<p class="signature"><span>{count} arrays {where}{also}</span></p>'
        f'<details class="quiet"><summary>Arguments</summary><p class="signature">'
        f"<code>{full}</code></p></details>"
    )


def _summary(report: Report) -> str:
    tiles = "".join(
        f"<div><dt>{escape(name)}</dt><dd><strong>{escape(figure)}</strong>"
        f"<span>{escape(told)}</span></dd></div>"
        for name, figure, told in summary(report)
    )
    told = (*report.notes, report.timing.note)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in told if note)
    return f'<dl class="tiles">{tiles}</dl>{notes}'


# -- steps ---------------------------------------------------------------------------------------


def _steps(report: Report) -> str:
    if not report.steps:
        return _section("steps", "Steps", "<p>The function computes nothing.</p>")
    hues = hues_of(report.steps)
    rows = "".join(_row(report, step, hues[step.number]) for step in report.steps)
    read, written = (
        sum(getattr(step, name) for step in report.steps)
        for name in ("bytes_read", "bytes_written")
    )
    total = (
        f'<tr><th></th><th scope="row">All steps</th><td class="n">{seconds_text(report.seconds)}'
        f'</td><td></td><td class="n">{bytes_text(read)}</td><td class="n">{bytes_text(written)}'
        f'</td><td class="n">{_rate(read + written, report.seconds)}</td><td></td></tr>'
    )
    heads = "".join(
        f'<th scope="col"{extra}>{name}</th>'
        for name, extra in (
            ("#", ' class="n"'), ("Step", ""), ("Time", ' class="n"'), ("Share", ""),
            ("Read", ' class="n"'), ("Written", ' class="n"'), ("Rate", ' class="n"'),
            ("Launch", ""),
        )
    )  # fmt: skip
    told = _timing_told(report)
    table = (
        '<div class="scroll" tabindex="0" role="region" aria-label="Steps"><table class="steps">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}"
        f"</tbody><tfoot>{total}</tfoot></table></div>"
    )
    return _section("steps", "Steps", f"{_strip(report)}{table}<p class='told'>{told}</p>")


def _timing_told(report: Report) -> str:
    timing = report.timing
    first = (
        "Bytes are those of the views that a step reads and writes; repeated axes count once, and"
        " a table that is gathered from counts what is taken of it."
    )
    if timing.whole is None:
        return first
    return escape(
        f"Each time is the median of {timing.rounds} launches of that step alone, with the cost of"
        f" a launch; all steps in one run take {seconds_text(timing.whole)}."
        f" Arrays: {timing.arrays}. {first}"
    )


def _rate(count: int, seconds: float) -> str:
    return rate_text(count / seconds if seconds else None)


def _strip(report: Report) -> str:
    """The steps side by side, each as wide as it is long."""
    if not report.seconds:
        return ""
    parts, hues = [], hues_of(report.steps)
    for step in report.steps:
        share = report.share(step)
        told = f"{step.number}: {step.label}, {seconds_text(step.seconds)}, {share_text(share)}"
        text = str(step.number) if share > 0.03 else ""
        parts.append(
            f'<a href="#step-{step.number}" class="k{hues[step.number]}" title="{escape(told)}"'
            f' style="flex-grow:{max(share, 1e-4):.5f}" tabindex="-1">{text}</a>'
        )
    return f'<div class="strip" role="img" aria-label="Time of the steps">{"".join(parts)}</div>'


def _row(report: Report, step: StepRecord, hue: int) -> str:
    share = report.share(step)
    if step.kernel:
        index = [kernel.name for kernel in report.kernels].index(step.kernel)
        what = f'<a href="#kernel-{index}"><code>{escape(step.kernel)}</code></a>'
    else:
        why = step.reason if step.library else "nothing to launch"
        what = f'<span class="why">{escape(why)}</span>'
    bar = (
        f'<span class="share"><i class="k{hue}" style="width:{share * 100:.1f}%">'
        f"</i></span><span>{share_text(share)}</span>"
    )
    return (
        f'<tr id="step-{step.number}"><td class="n"><b class="k{hue}">{step.number}'
        f'</b></td><td><span class="label" title="{escape(" ".join(step.nodes))}">'
        f"{escape(step.label)}</span>{what}</td>"
        f'<td class="n">{seconds_text(step.seconds)}</td><td class="bar">{bar}</td>'
        f'<td class="n">{bytes_text(step.bytes_read)}</td>'
        f'<td class="n">{bytes_text(step.bytes_written)}</td>'
        f'<td class="n">{rate_text(step.bandwidth)}</td><td>{escape(step.launch)}</td></tr>'
    )


# -- graphs and texts ----------------------------------------------------------------------------


def _graphs(report: Report) -> str:
    before, after = draw_graph(report.before), draw_steps(report.after, report.steps)
    inner = "".join([
        '<div class="pair">',
        _figure("As traced", report.before, before),
        _figure("As cut into steps", report.after, after),
        "</div>",
        _text("Text of the graph as traced", report.before.text),
        _text("Text after the passes", report.optimised),
        _text("Text as cut into steps", report.after.text),
    ])  # fmt: skip
    return _section("graph", "Graph", inner)


def _figure(name: str, graph: GraphRecord, drawing: Drawing) -> str:
    count = sum(node.op != "input" for node in graph.nodes)
    note = f'<p class="note">{escape(drawing.note)}</p>' if drawing.note else ""
    view = (
        f'<div class="canvas" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"{drawing.svg}</div>" if drawing.svg else ""
    )  # fmt: skip
    return (
        f"<figure><figcaption><strong>{escape(name)}</strong> <span>{count} nodes</span>"
        f"</figcaption>{note}{view}</figure>"
    )


def _plan(report: Report) -> str:
    inner = _text("Buffers and launches", report.plan)
    return _section("plan", "Plan", inner) + "</main>"


def _text(name: str, text: str) -> str:
    shown, cut = clip(text, _TEXT_MOST)
    told = f'<p class="note">{escape(cut)}</p>' if cut else ""
    return (
        f'<details class="quiet"><summary>{escape(name)}</summary>{told}'
        f'<pre class="plain" tabindex="0">{escape(shown)}</pre></details>'
    )


def _section(anchor: str, name: str, inner: str) -> str:
    head = f'<section id="{anchor}" aria-labelledby="{anchor}-h"><h2 id="{anchor}-h">{name}</h2>'
    return f"{head}{inner}</section>"

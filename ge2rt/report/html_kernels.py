"""The page's section about kernels: CUDA beside PTX, what is known of each, why it was chosen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from ge2rt.base.text import counted
from ge2rt.report.records import CandidateRecord, KernelRecord, LineLink, Report, StepRecord
from ge2rt.report.text import clip, fair_cap, kernel_facts, seconds_text, share_text

_CODE_MOST = 900_000  # characters of all kernels' CUDA and PTX
_NATIVE_MOST = 250_000  # of their LLVM IR
_KEYS = (
    '<p class="told keys" hidden>Point at a line of CUDA or PTX to see where it went; click or'
    " press Enter to bring it into view on the other side, arrows to move, Escape to let go.</p>"
)


def kernel_section(report: Report) -> str:
    """All kernels, the one that takes longest first and open."""
    head = '<section id="kernels" aria-labelledby="kernels-h"><h2 id="kernels-h">Kernels</h2>'
    if not report.kernels:
        return f"{head}<p>No kernel is launched.</p></section>"
    code = fair_cap([len(t) for k in report.kernels for t in (k.cuda, k.ptx)], _CODE_MOST)
    native = fair_cap([len(k.native) for k in report.kernels], _NATIVE_MOST)
    users = {
        kernel.name: [step for step in report.steps if step.kernel == kernel.name]
        for kernel in report.kernels
    }
    share = {name: sum(map(report.share, steps)) for name, steps in users.items()}
    order = sorted(range(len(report.kernels)), key=lambda i: -share[report.kernels[i].name])
    parts = []
    for place, index in enumerate(order):
        kernel = report.kernels[index]
        steps = users[kernel.name]
        summary = _summary(report, kernel, steps, share[kernel.name])
        body = "".join([
            _facts(kernel, steps), _choice(steps[0]), _code(kernel, code), _native(kernel, native),
        ])  # fmt: skip
        parts.append(
            f'<details class="kernel" id="kernel-{index}"{" open" if not place else ""}>'
            f"<summary>{summary}</summary>{body}</details>"
        )
    return f"{head}{_KEYS}{''.join(parts)}</section>"


def _summary(
    report: Report, kernel: KernelRecord, steps: Sequence[StepRecord], share: float
) -> str:
    times = sum(step.seconds or 0.0 for step in steps)
    launches = counted(len(steps), "launch", "es")
    timed = f"{seconds_text(times)}, {share_text(share)}" if report.seconds else "not timed"
    return f"<code>{escape(kernel.name)}</code><span>{launches}</span><span>{timed}</span>"


# -- facts ---------------------------------------------------------------------------------------


def _facts(kernel: KernelRecord, steps: Sequence[StepRecord]) -> str:
    shapes = list(dict.fromkeys(step.launch for step in steps))
    listed = "; ".join(shapes[:3]) + (f" and {len(shapes) - 3} others" if len(shapes) > 3 else "")
    dynamic = max(step.shared for step in steps)
    facts = [("launched as", listed), *kernel_facts(kernel)]
    if dynamic:
        facts.append(("dynamic shared memory", f"{dynamic} B"))
    numbers = ", ".join(f'<a href="#step-{s.number}">{s.number}</a>' for s in steps[:24])
    more = f" and {len(steps) - 24} more" if len(steps) > 24 else ""
    rows = f"<div><dt>steps</dt><dd>{numbers}{more}</dd></div>" + "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in facts
    )
    return f'<div class="facts"><dl>{rows}</dl>{_classes(kernel)}</div>'


def _classes(kernel: KernelRecord) -> str:
    """PTX instructions by class as bars."""
    most = max(kernel.instructions.classes.values(), default=1)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="n">{count}</td>'
        f'<td class="bar"><span class="share"><i style="width:{count / most * 100:.0f}%"></i>'
        "</span></td></tr>"
        for name, count in sorted(kernel.instructions.classes.items(), key=lambda kv: -kv[1])
    )
    return f'<table class="classes"><caption>PTX instructions by class</caption>{rows}</table>'


# -- selection -----------------------------------------------------------------------------------


def _choice(step: StepRecord) -> str:
    if not step.candidates:
        nodes = escape(", ".join(step.nodes))
        return f'<p class="told">Generated for these nodes of the graph: {nodes}.</p>'
    fit = [c for c in step.candidates if not c.refused]
    refused = [c for c in step.candidates if c.refused]
    rows = "".join(
        f"<tr{' class=chosen' if c.chosen else ''}><td><code>{escape(c.name)}</code></td>"
        f'<td class="n">{c.score}</td><td>{escape(c.reason)}</td></tr>'
        for c in fit
    )
    table = (
        '<table class="choice"><caption>Why this kernel: the highest score among those that fit'
        '</caption><thead><tr><th scope="col">Kernel</th><th scope="col" class="n">Score</th>'
        f'<th scope="col">Made of</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    return f'<div class="why-block">{table}{_refused(refused)}</div>'


def _refused(candidates: Sequence[CandidateRecord]) -> str:
    if not candidates:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(c.name)}</code></td><td>{escape(c.reason)}</td></tr>"
        for c in candidates
    )
    return (
        f'<details class="quiet"><summary>{len(candidates)} that do not fit</summary>'
        f'<table class="choice"><tbody>{rows}</tbody></table></details>'
    )


# -- code ----------------------------------------------------------------------------------------


def _code(kernel: KernelRecord, most: int) -> str:
    cuda, cut_cuda = clip(kernel.cuda, most)
    ptx, cut_ptx = clip(kernel.ptx, most)
    return (
        f'<div class="code">{_pane("CUDA", "cuda", cuda, cut_cuda)}'
        f"{_pane('PTX', 'ptx', ptx, cut_ptx)}"
        f'<script type="application/json">{_json(links_data(kernel))}</script></div>'
    )


def _pane(name: str, kind: str, text: str, cut: str) -> str:
    note = f"<span>{escape(cut)}</span>" if cut else ""
    # the parser drops one line break behind <pre>, so one is given to it
    return (
        f'<div class="pane"><div class="head"><strong>{name}</strong>{note}</div>'
        f'<pre class="{kind}" tabindex="0" aria-label="{name}">\n{escape(text, quote=False)}</pre>'
        "</div>"
    )


def links_data(kernel: KernelRecord) -> dict[str, object]:
    """What the script needs: chains of CUDA lines, one for each PTX line, and the template's lines.

    ``of`` has runs ``[first PTX line, lines, chain]``; ``from`` has runs ``[first CUDA line, lines,
    file, its line]``.
    """
    chains = list(dict.fromkeys(link.cuda for link in kernel.links))
    number = {chain: i for i, chain in enumerate(chains)}
    return {"chains": chains, "of": _runs(kernel.links, number), **_origins(kernel)}


def _runs(links: Sequence[LineLink], number: dict[tuple[int, ...], int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for link in links:
        chain = number[link.cuda]
        if runs and runs[-1][0] + runs[-1][1] == link.ptx and runs[-1][2] == chain:
            runs[-1][1] += 1
        else:
            runs.append([link.ptx, 1, chain])
    return runs


def _origins(kernel: KernelRecord) -> dict[str, object]:
    names = list(dict.fromkeys(name for name, _ in kernel.template_lines))
    number = {name: i for i, name in enumerate(names)}
    runs: list[list[int]] = []
    for at, (name, line) in enumerate(kernel.template_lines, 1):
        last = runs[-1] if runs else None
        if last and last[2] == number[name] and last[3] + last[1] == line:
            last[1] += 1
        else:
            runs.append([at, 1, number[name], line])
    return {"files": names, "from": runs}


def _json(data: object) -> str:
    """JSON that ends no script element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _native(kernel: KernelRecord, most: int) -> str:
    if not kernel.native:
        return ""
    text, cut = clip(kernel.native, most)
    note = f'<p class="note">{escape(cut)}</p>' if cut else ""
    return (
        f'<details class="quiet"><summary>{escape(kernel.native_title)}</summary>{note}'
        f'<pre class="plain" tabindex="0">\n{escape(text, quote=False)}</pre></details>'
    )

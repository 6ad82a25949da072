from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report.report_samples import HOSTILE, chain, compiled, hostile, kernel, made, report, step

from ge2rt.jit import jit
from ge2rt.report.collect import collect
from ge2rt.report.html import page
from ge2rt.report.html_kernels import links_data
from ge2rt.report.program import write_report
from ge2rt.report.records import CandidateRecord, MemoryRecord, Report

VOID = {"meta", "img", "br", "input", "link"}


class Reader(HTMLParser):
    """Elements, attributes, ids and text of a page; ends that do not match are noted."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


PAGES = {
    "scaled": lambda: report("scaled"), "layered": lambda: report("layered"), "made": made,
    "hostile": hostile,
}  # fmt: skip


@pytest.fixture(params=sorted(PAGES))
def reader(request: pytest.FixtureRequest) -> Reader:
    return Reader(page(PAGES[request.param]()))


def test_elements_are_nested(reader: Reader) -> None:
    assert reader.wrong == []
    assert reader.open == []


def test_nothing_is_loaded(reader: Reader) -> None:
    for tag, attrs in reader.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "srcset", "data", "action", "poster"} & set(attrs)
        assert (attrs.get("href") or "#").startswith("#")
        assert not [name for name in attrs if name.startswith("on")]
    policy = [a["content"] for t, a in reader.elements if a.get("http-equiv")]
    assert policy
    assert "default-src 'none'" in str(policy[0])


def test_every_link_leads_somewhere(reader: Reader) -> None:
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in reader.elements:
        if attrs.get("href"):
            assert str(attrs["href"])[1:] in ids
        if attrs.get("aria-labelledby"):
            assert attrs["aria-labelledby"] in ids


def test_texts_are_escaped() -> None:
    text = page(hostile())
    assert "<img" not in text
    assert text.count("</script>") == text.count("<script")
    assert HOSTILE in "".join(Reader(text).text)


def test_what_the_script_reads_is_json_and_true() -> None:
    text = page(report("scaled"))
    (found,) = re.findall(r'<script type="application/json">(.*?)</script>', text)
    data = json.loads(found)
    (one,) = report("scaled").kernels
    chains = {
        line: tuple(data["chains"][chain])
        for first, count, chain in data["of"] for line in range(first, first + count)
    }  # fmt: skip
    assert chains == {link.ptx: link.cuda for link in one.links}
    origins = {
        first + i: (data["files"][file], line + i)
        for first, count, file, line in data["from"] for i in range(count)
    }  # fmt: skip
    assert origins == dict(enumerate(one.template_lines, 1))


def test_links_are_runs() -> None:
    assert links_data(kernel()) == {
        "chains": [(2,), (1, 2)], "of": [[1, 2, 0], [3, 1, 1]],
        "files": ["fused.cu.j2"], "from": [[1, 2, 0, 7]],
    }  # fmt: skip


def test_code_is_on_the_page_as_it_is() -> None:
    (one,) = report("scaled").kernels
    text = "".join(Reader(page(report("scaled"))).text)
    assert one.cuda in text
    assert one.ptx in text
    assert one.native in text


def test_the_slowest_kernel_comes_first_and_is_open() -> None:
    steps = (step(0, kernel="quick", seconds=1e-6), step(1, kernel="slow", seconds=1e-3))
    text = page(made(steps=steps, kernels=(kernel("quick"), kernel("slow"))))
    found = re.findall(r'<details class="kernel" id="kernel-(\d)"( open)?>', text)
    assert found == [("1", " open"), ("0", "")]


def test_light_and_dark_and_keys() -> None:
    text = page(made())
    assert "prefers-color-scheme: dark" in text
    assert 'name="color-scheme" content="light dark"' in text
    assert ":focus-visible" in text
    assert '<pre class="cuda" tabindex="0"' in text
    assert '<html lang="en">' in text


def test_reasons_are_shown() -> None:
    candidates = (
        CandidateRecord("good", 90, "declared 60 + tensor_core 30", True),
        CandidateRecord("plain", 60, "declared 60", False),
        CandidateRecord("other", 0, "A: wants f16, got f32", False, True),
    )
    text = page(made(steps=(step(0, candidates=candidates),)))
    assert "declared 60 + tensor_core 30" in text
    assert "1 that do not fit" in text
    assert "A: wants f16, got f32" in text


def test_figures_are_shown() -> None:
    text = page(made())
    for figure in ("3.50 us", "3.00 us", "75.0 %", "2.00 KiB", "1.37 GB/s", "256 B", "250 ms"):
        assert figure in text, figure


def test_large_texts_are_cut_and_the_page_stays_small() -> None:
    code = "float x = 1.0f;  // a line of code <&>\n" * 20_000
    kernels = tuple(kernel(f"k{i}", cuda=code, ptx=code, native=code) for i in range(40))
    steps = tuple(step(i, kernel=f"k{i}") for i in range(40))
    graph = chain(800, cut=True)
    text = page(made(kernels=kernels, steps=steps, after=graph, plan=code, optimised=code))
    assert len(text.encode()) < 2_000_000
    assert "lines; compiled.stages has all" in text


def test_a_model_of_many_layers_stays_small() -> None:
    @jit
    def model(x, ws):  # type: ignore[no-untyped-def]
        for w in ws:
            c = x - x.mean(axis=-1, keepdims=True)
            c = c / np.sqrt((c**2).mean(axis=-1, keepdims=True) + 1e-5)
            x = x + np.tanh(c @ w)
        return x

    ws = [np.ones((64, 64), np.float32)] * 24
    found = collect(model.compile(np.ones((64, 64), np.float32), ws), timed=False)
    text = page(found)
    assert len(found.before.nodes) > 300
    assert len(found.kernels) <= 6
    assert len(text.encode()) < 1_000_000
    assert "times is drawn once" in text


@pytest.mark.parametrize(
    "empty",
    [
        made(steps=(), kernels=(), memory=MemoryRecord((), 0, 0)),
        made(kernels=(), steps=(step(0, kernel="", library="BLAS", reason="large"),)),
        made(kernels=(), steps=(step(0, kernel=""),)),
    ],
)
def test_little_to_show(empty: Report) -> None:
    found = Reader(page(empty))
    assert found.wrong == []
    assert "No kernel is launched." in "".join(found.text)


def test_report_of_a_compiled_function(tmp_path: Path) -> None:
    compiled("scaled").report(str(tmp_path / "out.html"))
    text = (tmp_path / "out.html").read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "<h1>scaled</h1>" in text
    write_report(compiled("scaled"), tmp_path / "other.html")
    assert (tmp_path / "other.html").stat().st_size > 10_000

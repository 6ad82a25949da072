"""Random streams against the statement of Philox, and files against safetensors' description."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.spec.library.norms import philox_stream
from ge2rt.tensors.files import metadata


def test_uniform_numbers_are_the_words_of_the_stream() -> None:
    g = ge2rt.Generator(42)
    first, second = g.uniform(3, 3), g.uniform(4, low=-1.0, high=3.0)
    words = philox_stream(16, 42, 0) >> 8
    np.testing.assert_array_equal(first.numpy().reshape(-1), (words[:9] / 2**24).astype(np.float32))
    np.testing.assert_allclose(second.numpy(), words[12:] / 2**24 * 4 - 1, rtol=1e-6)
    assert g.state() == (42, 4)
    again = ge2rt.Generator(42, 3).uniform(4, low=-1.0, high=3.0)
    np.testing.assert_array_equal(again.numpy(), second.numpy())


def test_moments() -> None:
    g = ge2rt.Generator(1)
    u, n = g.uniform(100_000).numpy(), g.normal(100_000, mean=2.0, std=3.0).numpy()
    assert 0 <= u.min() < u.max() < 1
    assert abs(u.mean() - 0.5) < 0.005
    assert abs(n.mean() - 2) < 0.05
    assert abs(n.std() - 3) < 0.05
    assert abs(((n - 2) / 3 > 1.96).mean() - 0.025) < 0.003
    whole = g.integers(-2, 5, (50_000,)).numpy()
    assert set(np.unique(whole)) == set(range(-2, 5))
    assert abs(np.bincount(whole + 2) / 50_000 - 1 / 7).max() < 0.01
    order = g.permutation(1000).numpy()
    assert sorted(order) == list(range(1000))
    assert (order != np.arange(1000)).any()


def test_the_shared_generator() -> None:
    ge2rt.manual_seed(5)
    a, b = ge2rt.rand(3), ge2rt.randn(2, 2)
    ge2rt.manual_seed(5)
    np.testing.assert_array_equal(ge2rt.rand(3).numpy(), a.numpy())
    np.testing.assert_array_equal(ge2rt.randn(2, 2).numpy(), b.numpy())
    assert ge2rt.randint(0, 3, (2,)).dtype.name == "i64"
    assert ge2rt.randperm(0).shape == (0,)
    assert ge2rt.rand(0, 3).shape == (0, 3)
    with pytest.raises(InvalidArgumentError, match="low < high"):
        ge2rt.randint(3, 3)
    with pytest.raises(InvalidArgumentError, match="use integers"):
        ge2rt.rand(3, dtype="i32")


def test_files_keep_names_dtypes_shapes_and_values(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        dtype: ge2rt.tensor(np.arange(6).reshape(2, 3) % 2, dtype)
        for dtype in ("f32", "f64", "f16", "bf16", "i8", "i64", "u16", "bool")
    }
    given["turned"] = ge2rt.tensor(np.arange(6.0)).reshape(2, 3).T
    given["number"], given["nothing"] = ge2rt.tensor(3.0), ge2rt.zeros(0, 4)
    path = tmp_path / "x.safetensors"
    ge2rt.save(given, path, {"by": "a test"})
    found = ge2rt.load(path)
    assert found.keys() == given.keys()
    for name, value in given.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        np.testing.assert_array_equal(found[name].numpy(), value.numpy())
    assert metadata(path) == {"by": "a test"}
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    first, last = header["turned"]["data_offsets"]
    body = np.frombuffer(raw[8 + length :][first:last], np.float64)
    np.testing.assert_array_equal(body, given["turned"].numpy().reshape(-1))


def entry(**parts: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **parts}}


DAMAGED = [
    (b"", "longer than the file"), (b"\xff" * 8, "longer than the file"),
    (struct.pack("<Q", 4) + b"{{{{", "no JSON"), (struct.pack("<Q", 2) + b"[]", "no mapping"),
    (entry(shape=[3]), "does not fit its bytes"), (entry(data_offsets=[0, 9]), "does not fit"),
    (entry(data_offsets=[8, 16]), "does not fit"), (entry(shape=[-2]), "does not fit"),
    (entry(data_offsets=None), "lacks dtype"), ({"a": 3}, "lacks dtype"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "text"), DAMAGED)
def test_damaged_files_are_told(tmp_path: Path, content: Any, text: str) -> None:
    path = tmp_path / "x.safetensors"
    if isinstance(content, dict):
        header = json.dumps(content).encode()
        content = struct.pack("<Q", len(header)) + header + bytes(8)
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=text):
        ge2rt.load(path)


def test_an_unknown_dtype(tmp_path: Path) -> None:
    header = json.dumps(entry(dtype="C64")).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(InvalidTypeError, match="C64"):
        ge2rt.load(path)

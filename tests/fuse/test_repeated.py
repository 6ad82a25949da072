"""A value of few elements that a large kernel would compute at each of its points is stored."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ge2rt import jit, value_and_grad


def counted(function, *arrays):
    """The steps of a compiled function, and whether it agrees with NumPy."""
    compiled = jit(function).compile(*arrays)
    np.testing.assert_allclose(compiled(*arrays), function(*arrays), rtol=1e-4, atol=1e-4)
    return len(compiled.built.program.steps)


def test_a_normalised_row_is_normalised_once_however_many_columns_it_meets():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 96), np.float32)
    w = rng.standard_normal((96, 300), np.float32).astype(ml_dtypes.bfloat16)

    def normalise(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    assert counted(lambda x, w: normalise(x) @ w, x, w) == 2
    assert counted(lambda x, w: x @ w, x, w) == 1


def test_a_function_of_a_row_is_stored_and_a_cheap_term_is_not():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 40), np.float32)
    g = rng.standard_normal(40, np.float32)
    assert counted(lambda x, g: x * np.exp(g), x, g) == 2
    assert counted(lambda x, g: x * (g + 1), x, g) == 1
    assert counted(lambda x, g: x[:5] * np.exp(g), x, g) == 1


def temporaries(function, *arrays, argnums=0):
    """Arrays between the kernels of a function's value and gradients, the library's results too."""
    program = jit(value_and_grad(function, argnums=argnums)).compile(*arrays).built.program
    return [buffer for buffer in program.buffers if buffer.kind == "temp"]


def test_the_way_back_computes_again_what_costs_less_than_to_keep():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((64, 256), np.float32)
    w = rng.standard_normal((256, 256), np.float32) / 16
    # one kernel for both ways: nothing is kept
    assert temporaries(lambda x: (np.tanh(np.sin(x * 2) + 1) ** 2).sum(), x) == []
    # the product and its gradient, of which the library makes and takes whole arrays, and no more
    found = temporaries(lambda w, x: (((x @ w) * 2 + 1) ** 3).mean(), w, x)
    assert [b.type.shape for b in found] == [(64, 256)] * 2

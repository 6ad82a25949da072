"""Every operator in its three forms against NumPy, on strided operands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import erf as erf_of
from math import pi, sqrt
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import Ge2rtError, InvalidArgumentError, InvalidTypeError
from ge2rt.tensors.operators import Operator, table

RNG = np.random.default_rng(9)
ROWS = list(table().values())


def stretched(values: Any, way: str) -> Any:
    """The same values with other strides."""
    if way == "turned" and values.ndim > 1:
        return np.ascontiguousarray(values.T).T
    if way == "backwards" and values.ndim:
        return np.ascontiguousarray(values[::-1])[::-1]
    if way == "apart" and values.ndim:
        return np.repeat(values, 2, axis=-1)[..., ::2]
    return values


WAYS = ("dense", "turned", "backwards", "apart")
BOOLS = {"logical_and", "logical_or", "logical_xor", "logical_not"}
INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift",
            "bitwise_right_shift"}  # fmt: skip
RANGES = {"acosh": (1.2, 3.0), "rsqrt": (0.2, 3), "pow": (0.2, 2), "float_power": (0.2, 2)}


def operands(op: Operator, shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    found = []
    for shape in shapes:
        low, high = RANGES.get(op.name, (-0.9, 0.9))
        if op.name in ("log", "log2", "log10", "sqrt", "log1p", "logaddexp2"):
            low = 0.1
        values: Any = RNG.uniform(low, high, shape).astype(np.float32)
        if op.name in BOOLS or (op.name in ("any", "all")):
            values = values > 0
        elif op.name in INTEGERS:
            values = RNG.integers(0, 9, shape)
        found.append(values)
    return found


_ERF = np.vectorize(erf_of)
OWN: dict[str, Callable[..., Any]] = {
    "ge2rt.rsqrt": lambda x: 1 / np.sqrt(x), "ge2rt.erf": lambda x: _ERF(x).astype(x.dtype),
    "ge2rt.sigmoid": lambda x: 1 / (1 + np.exp(-x)), "ge2rt.relu": lambda x: np.maximum(x, 0),
    "ge2rt.silu": lambda x: x / (1 + np.exp(-x)),
    "ge2rt.gelu": lambda x: 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))),
    "ge2rt.detach": lambda x: x,
    "ge2rt.softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "ge2rt.log_softmax": lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "ge2rt.logsumexp": lambda x: np.log(np.exp(x).sum()),
    "ge2rt.take": lambda x, i: np.take(x, i), "ge2rt.gather": lambda x, i: np.take(x, i, axis=0),
    "ge2rt.einsum_of": lambda arrays: arrays[0] * arrays[1],
    "ge2rt.topk": lambda x: (np.sort(x)[..., -1:], np.argmax(x, -1)[..., None]),
}  # fmt: skip


def meaning(op: Operator) -> Callable[..., Any]:
    if op.meaning in OWN:
        return OWN[op.meaning]
    found: Any = np
    for part in op.meaning.split(".")[1:]:
        found = getattr(found, part)
    options = DEFAULTS.get(op.name, {})
    return lambda *args: found(*args, **options)


# where NumPy asks for what the operator has a default for
DEFAULTS: dict[str, dict[str, Any]] = {
    "quantile": {"q": 0.5}, "tile": {"reps": 1}, "repeat": {"repeats": 1}, "roll": {"shift": 1},
    "pad": {"pad_width": 0}, "full_like": {"fill_value": 0}, "percentile": {"q": 50},
    "partition": {"kth": 0}, "argpartition": {"kth": 0}, "take_along_axis": {"axis": -1},
    "clip": {"a_min": None, "a_max": None},
}  # fmt: skip


def arguments(op: Operator) -> list[Any]:
    """Operands that the operator's defaults fit."""
    names = [n for n, p in op.signature.parameters.items() if p.default is inspect.Parameter.empty]
    if op.kind == "joins" or op.name == "einsum":
        return [operands(op, ((3, 4), (3, 4)))]
    if op.name == "where":
        return [RNG.random((3, 4)) < 0.5, *operands(op, ((3, 4), (4,)))]
    if op.name in ("take", "gather"):
        return [*operands(op, ((3, 4),)), np.array([[0, 2], [1, 0]])]
    if op.name == "take_along_axis":
        return [*operands(op, ((3, 4),)), RNG.integers(0, 4, (3, 2))]
    if op.name == "choose":
        return [RNG.integers(0, 2, (3, 4)), operands(op, ((3, 4), (3, 4)))]
    if op.kind == "products":
        square = op.name in ("vdot", "inner", "tensordot")
        return operands(op, ((4, 4), (4, 4)) if square else ((3, 4), (4, 2)))
    if len(names) == 2:
        return operands(op, ((3, 4), (4,)))
    return operands(op, ((3, 4),))


def lifted(value: Any) -> Any:
    return [lifted(v) for v in value] if isinstance(value, list) else ge2rt.from_numpy(value)


def near(got: Any, want: Any) -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            near(one, other)
        return
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_three_forms(op: Operator) -> None:
    given = arguments(op)
    way = WAYS[len(op.name) % 3 + 1]
    given = [
        [stretched(v, way) for v in value] if isinstance(value, list) else stretched(value, way)
        for value in given
    ]
    want = meaning(op)(*given)
    call = getattr(ge2rt.ops, op.name)
    got = call(*map(lifted, given))
    near(got, want)
    if isinstance(got, ge2rt.Tensor):
        assert got.dtype.name == ge2rt.tensor(np.asarray(want)).dtype.name
        out = ge2rt.empty(got.shape, dtype=got.dtype)
        assert call(*map(lifted, given), out=out) is out
        near(out, want)
    first = next(iter(op.signature.parameters))
    if first in ("x", "a"):
        near(getattr(lifted(given[0]), op.name)(*map(lifted, given[1:])), want)
    if op.kind == "pointwise" and first in ("x", "a"):
        in_place(op, given, want)


def in_place(op: Operator, given: list[Any], want: Any) -> None:
    x = lifted(given[0]).clone()
    same = np.asarray(want)
    kinds = {"b": 0, "i": 1, "u": 1, "f": 2}
    method = getattr(x, f"{op.name}_")
    if kinds[same.dtype.kind] > kinds[given[0].dtype.kind]:
        with pytest.raises(InvalidTypeError, match="cannot be written"):
            method(*map(lifted, given[1:]))
        return
    address, version = x.data_ptr(), x.storage().version
    assert method(*map(lifted, given[1:])) is x
    near(x, same.astype(given[0].dtype))
    assert x.data_ptr() == address
    assert x.storage().version == version + 1


def test_there_are_enough_of_them() -> None:
    assert len(ROWS) >= 150


NUMBERS = [
    ("x + 1", lambda x: x + 1), ("1 - x", lambda x: 1 - x), ("x ** 2", lambda x: x**2),
    ("2 ** x", lambda x: 2**x), ("x // 2", lambda x: x // 2), ("7 % x", lambda x: 7 % x),
    ("-x", lambda x: -x), ("abs(x)", abs), ("x == 2", lambda x: x == 2),
    ("x / 2", lambda x: x / 2), ("x @ x.T", lambda x: x @ x.T), ("x < x.T", lambda x: x < x.T),
    ("array + x", lambda x: np.ones((3, 3), np.float32) + x), ("np.exp", np.exp),
    ("np.sum", lambda x: np.sum(x, axis=0)), ("np.where", lambda x: np.where(x > 2, x, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call"), NUMBERS, ids=[name for name, _ in NUMBERS])
@pytest.mark.parametrize("dtype", ["f32", "i64", "f16"])
def test_operators_with_numbers_promote_as_numpy(name: str, call: Any, dtype: str) -> None:
    values = np.arange(1, 10).reshape(3, 3)
    x = ge2rt.tensor(values, dtype)
    got = call(x)
    want = call(x.numpy())
    assert isinstance(got, ge2rt.Tensor)
    assert got.numpy().dtype == want.dtype
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-2 if dtype == "f16" else 1e-6)


def test_a_new_size_compiles_nothing() -> None:
    from ge2rt.base import events

    def compute(n: int, m: int) -> None:
        a, b = ge2rt.ones(n, m), ge2rt.ones(n, m)
        assert ((a * b + a) == 2).all()

    for sizes in ((2, 3), (17, 18), (40, 50), (130, 131), (1000, 1001)):  # kernels by size class
        compute(*sizes)
    before = events.counts().get("compile", 0)
    for sizes in ((5, 7), (3, 11), (19, 23), (61, 67), (170, 190), (999, 1003)):
        compute(*sizes)
    assert events.counts().get("compile", 0) == before


REFUSED = [
    (lambda x: ge2rt.ops.add(x), InvalidTypeError, "missing a required argument: 'b'"),
    (lambda x: x.sum(axes=1), InvalidTypeError, "unexpected keyword"),
    (lambda x: x.sum(axis=2), InvalidArgumentError, "axis"),
    (lambda x: x + ge2rt.ones(4), InvalidArgumentError, "broadcast"),
    (lambda x: ge2rt.ops.exp(x, out=ge2rt.empty(4)), InvalidArgumentError, "out has another"),
    (lambda x: ge2rt.ops.exp(x, out=np.empty(3)), InvalidTypeError, "out is no tensor"),
    (lambda x: x.add_(ge2rt.ones(2, 2, 3)), InvalidArgumentError, "does not fit into"),
    (lambda x: ge2rt.ops.sum(x, out=ge2rt.empty((), dtype="i64")), InvalidTypeError, "written"),
    (lambda x: np.fft.fft(x), InvalidTypeError, "no operator"),
    (lambda x: np.add.reduce(x), InvalidTypeError, "numpy.add.reduce"),
    (lambda x: bool(x), InvalidArgumentError, "ambiguous"),
    (lambda x: x.item(), InvalidArgumentError, "6 elements"),
    (lambda x: ge2rt.tensor([[1, 2], [3]]), InvalidTypeError, "not of one shape"),
    (lambda x: ge2rt.tensor("text"), InvalidTypeError, "dtype"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED)
def test_what_is_refused(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(ge2rt.ones(2, 3))


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="softmax"):
        ge2rt.ops.sofmax  # noqa: B018
    with pytest.raises(AttributeError, match="nonsense"):
        ge2rt.ones(2).nonsense  # noqa: B018
    with pytest.raises(TypeError):
        ge2rt.ones(2) + "a"
    assert {"add_", "sum", "reshape"} <= set(dir(ge2rt.ones(1)))
    assert issubclass(Ge2rtError, Exception)


def test_operators_are_a_module_to_import() -> None:
    import ge2rt.ops
    from ge2rt.ops import add

    assert add is ge2rt.ops.add
    assert add(ge2rt.ones(1), 1).item() == 2
    assert {"add", "concat"} <= set(dir(ge2rt.ops))


def test_einsum_and_take_of_tensors() -> None:
    values = np.arange(6.0).reshape(2, 3)
    x = ge2rt.tensor(values, requires_grad=True)
    for product in (ge2rt.einsum("ij,kj->ik", x, x), np.einsum("ij,kj->ik", x, x),
                    ge2rt.ops.einsum([x, x], "ij,kj->ik")):  # fmt: skip
        np.testing.assert_array_equal(product.detach().numpy(), values @ values.T)
    product.sum().backward()  # d/dx sum(x xT) = 2 * (column sums)
    np.testing.assert_array_equal(x.grad.numpy(), np.tile(2 * values.sum(0), (2, 1)))
    for taken in (ge2rt.take(x, [0, 5]), np.take(x, [0, 5])):
        np.testing.assert_array_equal(taken.detach().numpy(), [0, 5])
    np.testing.assert_array_equal(np.take(x, [9], mode="clip").detach().numpy(), [5])

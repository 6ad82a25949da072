"""What cannot be traced: the stated exception, with a sentence that says what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ge2rt.base.errors import Ge2rtError
from ge2rt.jit import JitFunction, jit
from ge2rt.jit import functions as ge
from ge2rt.jit.backend import build_reference

Program = Callable[[Any], Any]
X = np.linspace(-2, 2, 20, dtype=np.float32).reshape(4, 5)


def traced(function: Program, **options: Any) -> JitFunction:
    return JitFunction(function, build=build_reference, **options)


def _if(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def _while(x: Any) -> Any:
    while np.abs(x).max() > 1:
        x = x / 2
    return x


def _list(x: Any) -> Any:
    return [v for v in x[0] if v > 0]


CONTROL_FLOW: dict[str, Program] = {
    "if": _if, "while": _while, "list": _list, "and": lambda x: x[0, 0] and x[0, 1],
    "int": lambda x: int(x[0, 0]), "float": lambda x: float(x[0, 0]),
    "index": lambda x: x[: x[0, 0].astype(np.int32)], "range": lambda x: range(x[0, 0].astype(int)),
    "math": lambda x: math.sqrt(x[0, 0]), "max": lambda x: max(x[0]), "in": lambda x: 1.0 in x,
    "item": lambda x: x[0, 0].item(), "tolist": lambda x: x.tolist(), "round": lambda x: round(x),
    "asarray": lambda x: np.asarray(x), "array of traced": lambda x: np.array([x[0], x[1]]),
    "sorted": lambda x: sorted(x[0]), "complex": lambda x: complex(x[0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROL_FLOW)
def test_control_flow_on_traced_values(name: str) -> None:
    with pytest.raises(TypeError, match="control flow") as caught:
        traced(CONTROL_FLOW[name])(X)
    _tells_what_to_do(caught.value)
    assert "test_refused.py" in str(caught.value)


NOT_COVERED: dict[str, tuple[Program, str]] = {
    "fft": (lambda x: np.fft.fft(x), "fft"), "inv": (lambda x: np.linalg.inv(x @ x.T), "inv"),
    "interp": (lambda x: np.interp(x, [0, 1], [0, 1]), "interp"),
    "unique": (lambda x: np.unique(x), "unique"), "nonzero": (lambda x: np.nonzero(x), "nonzero"),
    "where of one": (lambda x: np.where(x > 0), "where"),
    "view": (lambda x: x.view(np.int32), "view"), "tofile": (lambda x: x.tofile("f"), "tofile"),
    "nextafter": (lambda x: np.nextafter(x, 0), "nextafter"),
    "at": (lambda x: np.add.at(x, [0], 1), "add.at"),
    "reduceat": (lambda x: np.add.reduceat(x, [0, 1]), "add.reduceat"),
    "out": (lambda x: np.add(x, 1, out=np.zeros((4, 5), np.float32)), "out"),
    "sum out": (lambda x: np.sum(x, out=np.zeros((), np.float32)), "out"),
    "where=": (lambda x: np.add(x, 1, where=x > 0), "where"),
    "in place of an array": (lambda x: np.zeros((4, 5), np.float32).__iadd__(x), "out"),
    "mask": (lambda x: x[x > 0], "mask"), "option": (lambda x: x.sum(bogus=3), "sum"),
    "pad mode": (lambda x: np.pad(x, 1, mode="linear_ramp"), "linear_ramp"),
    "norm of a matrix": (lambda x: np.linalg.norm(x, 2), "norm"),
    "assignment of indices": (lambda x: (x * 1).__setitem__([0, 1], 2), "indices"),
    "insert": (lambda x: np.insert(x, 0, 1), "insert"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_COVERED)
def test_functions_not_covered_are_named(name: str) -> None:
    program, named = NOT_COVERED[name]
    with pytest.raises(TypeError, match=named) as caught:
        traced(program)(X)
    _tells_what_to_do(caught.value)


ONE_AXIS: dict[str, Program] = {
    "argmax": lambda x: x.argmax(axis=(0, 1)), "sort": lambda x: np.sort(x, axis=(0, 1)),
    "cumsum": lambda x: np.cumsum(x, axis=(0, 1)), "diff": lambda x: np.diff(x, axis=(0, 1)),
    "concatenate": lambda x: np.concatenate([x, x], axis=(0, 1)),
    "average": lambda x: np.average(x, weights=x[0]),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_AXIS)
def test_several_axes_where_one_is_wanted(name: str) -> None:
    with pytest.raises(TypeError):
        ONE_AXIS[name](X)
    with pytest.raises(TypeError, match="axis must be an integer") as caught:
        traced(ONE_AXIS[name])(X)
    _tells_what_to_do(caught.value)


COMPLEX: dict[str, Program] = {
    "scalar": lambda x: x * 1j, "astype": lambda x: x.astype(complex),
    "array": lambda x: x + np.ones(5, complex), "dtype": lambda x: np.sum(x, dtype=np.complex64),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name: str) -> None:
    with pytest.raises(TypeError, match="complex") as caught:
        traced(COMPLEX[name])(X)
    _tells_what_to_do(caught.value)


WRONG: dict[str, tuple[Program, str]] = {
    "broadcast": (lambda x: x + np.zeros(7, np.float32), "broadcast"),
    "axis": (lambda x: x.sum(axis=2), "axis"), "axis twice": (lambda x: x.sum((0, 0)), "twice"),
    "reshape": (lambda x: x.reshape(3, 7), "reshape"),
    "two -1": (lambda x: x.reshape(-1, -1), "-1"),
    "matmul": (lambda x: x @ x, "matmul"),
    "concatenate": (lambda x: np.concatenate([x, x.T]), "join"),
    "stack": (lambda x: np.stack([x, x[0]]), "stack"), "split": (lambda x: np.split(x, 3), "split"),
    "squeeze": (lambda x: x.squeeze(0), "squeeze"),
    "einsum": (lambda x: np.einsum("ij,jk", x, x), "einsum"),
    "broadcast_to": (lambda x: np.broadcast_to(x, (5,)), "broadcast"),
    "index": (lambda x: x[4], "outside"), "negative index": (lambda x: x[:, -6], "outside"),
    "too many indices": (lambda x: x[0, 0, 0], "indices"),
    "transpose": (lambda x: x.transpose(0, 0), "twice"),
    "max of nothing": (lambda x: x[:0].max(), "zero-size"),
    "topk": (lambda x: ge.topk(x, 9), "k is 9"),
    "quantile": (lambda x: np.quantile(x, 30), "outside 0 to 1"),
    "in place": (lambda x: (x[0] * 1).__iadd__(x), "in-place"),
    "negative power": (lambda x: x.astype(int) ** -1, "negative"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_shapes_axes_and_indices(name: str) -> None:
    program, text = WRONG[name]
    with pytest.raises(ValueError, match=text) as caught:
        traced(program)(X)
    _tells_what_to_do(caught.value)


RANGES: dict[str, Program] = {
    "u8": lambda x: x.astype(np.uint8) + 300, "negative": lambda x: x.astype(np.uint16) * -1,
    "full": lambda x: np.full_like(x, 200, dtype=np.int8), "i64": lambda x: x.astype(int) + 2**70,
    "float": lambda x: x * 10**400, "where": lambda x: np.where(x > 0, x.astype(np.int8), 128),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_python_integers_out_of_range(name: str) -> None:
    with pytest.raises(OverflowError, match="Python integer") as caught:
        traced(RANGES[name])(X)
    _tells_what_to_do(caught.value)


def test_gather_out_of_range_raises_when_it_runs() -> None:
    @jit
    def pick(x: Any, i: Any) -> Any:
        return x[i]

    assert (pick(X, np.array([0, -1, 3])) == X[[0, -1, 3]]).all()
    for bad in ([4], [-5], [0, 99]):
        with pytest.raises(ValueError, match="outside"):
            pick(X, np.array(bad))
    assert (pick(X, np.array([1])) == X[[1]]).all()  # nothing is left of the fault


ARGUMENTS: dict[str, Any] = {
    "object": object(), "complex": X.astype(complex), "text": np.array(["a"]),
    "objects": np.array([None]), "masked": np.ma.masked_array(X), "matrix of objects": [object()],
    "big endian": X.astype(">f4"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_are_no_data(name: str) -> None:
    with pytest.raises(TypeError) as caught:
        traced(lambda x: x)(ARGUMENTS[name])
    _tells_what_to_do(caught.value)
    assert "'x" in str(caught.value)


def test_a_traced_value_that_is_kept() -> None:
    kept: list[Any] = []
    traced(lambda x: kept.append(x) or x + 1)(X)
    with pytest.raises(TypeError, match="outside the function"):
        kept[0] + 1
    with pytest.raises(TypeError, match="outside the function"):
        traced(lambda x: x + kept[0])(X)


def test_unknown_attributes_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="bogus"):
        traced(lambda x: x.bogus)(X)
    assert traced(lambda x: x * (2 if hasattr(x, "units") else 3))(X)[0, 0] == -6


def test_the_users_own_errors_pass() -> None:
    def broken(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        traced(broken)(X)
    with pytest.raises(TypeError, match="missing"):
        traced(lambda x, y: x + y)(X)


def test_jit_of_no_function_and_of_unknown_names() -> None:
    with pytest.raises(TypeError, match="no function"):
        jit(3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="bogus"):
        jit(lambda x: x, static=("bogus",))  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="dynamic"):
        jit(lambda x: x, dynamic={"y": {0: "n"}})  # type: ignore[call-overload]


def _tells_what_to_do(fault: BaseException) -> None:
    assert isinstance(fault, Ge2rtError), repr(fault)
    assert fault.record.next_step, str(fault)

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.device.pointers import Operand, address_of, describe


def start(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize(
    ("view", "shape", "strides", "offset"),
    [
        (lambda x: x, (4, 6), (6, 1), 0),
        (lambda x: x.T, (6, 4), (1, 6), 0),
        (lambda x: x[1:, ::2], (3, 3), (6, 2), 24),
        (lambda x: x[::-1], (4, 6), (-6, 1), 72),
        (lambda x: np.broadcast_to(x[0], (5, 6)), (5, 6), (0, 1), 0),
        (lambda x: x[2, 3], (), (), None),
    ],
)
def test_numpy_views(view: Any, shape: Any, strides: Any, offset: int | None) -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    found = describe(view(base))
    assert (found.shape, found.strides, found.dtype.name) == (shape, strides, "f32")
    assert found.device == "cpu"
    if offset is not None:
        assert found.address == start(base) + offset


def test_broadcast_views_are_read_only_and_arrays_are_not() -> None:
    base = np.zeros(3, np.int8)
    assert not describe(base).readonly
    assert describe(np.broadcast_to(base, (2, 3))).readonly


def test_storage_types() -> None:
    assert describe(np.zeros(2, ml_dtypes.bfloat16)).dtype.name == "bf16"
    assert describe(np.zeros(2, ml_dtypes.float8_e4m3fn)).dtype.name == "fp8_e4m3"
    assert describe(np.zeros(2, bool)).dtype.name == "bool"


@pytest.mark.parametrize(
    "array",
    [np.zeros(2, np.complex64), np.zeros(2, object), np.zeros(2, ">f4"), np.zeros(2, "U3"),
     np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")])],
)  # fmt: skip
def test_types_that_kernels_do_not_have(array: Any) -> None:
    with pytest.raises(InvalidTypeError, match="argument 'x': dtype cannot be used"):
        describe(array, "x")


@pytest.mark.parametrize("thing", [[1.0, 2.0], "text", object(), 3, None])
def test_what_is_no_array(thing: Any) -> None:
    with pytest.raises(InvalidTypeError, match="not an array that kernels can use"):
        describe(thing)


def test_strides_that_are_no_whole_elements() -> None:
    packed = np.zeros(4, [("a", "i1"), ("b", "<i4")])["b"]
    with pytest.raises(InvalidArgumentError, match="not a whole number of elements"):
        describe(packed)
    assert describe(packed[:1]).shape == (1,)


def test_cuda_array_interface() -> None:
    array = SimpleNamespace(
        __cuda_array_interface__={
            "shape": (2, 3), "typestr": "<f2", "data": (4096, True), "strides": (2, 4),
            "version": 3,
        },
        device=SimpleNamespace(id=1),
    )  # fmt: skip
    found = describe(array)
    assert (found.address, found.shape, found.strides) == (4096, (2, 3), (1, 2))
    assert (found.dtype.name, found.device, found.readonly) == ("f16", "cuda:1", True)
    array.__cuda_array_interface__["strides"] = None
    assert describe(array).strides == (3, 1)
    array.__cuda_array_interface__["mask"] = array
    with pytest.raises(InvalidTypeError, match="masked"):
        describe(array)


class FakeTensor:
    """Torch's side of the bargain."""

    def __init__(self, device: str = "cpu", index: int | None = None, **lazy: bool) -> None:
        self.device = SimpleNamespace(type=device, index=index)
        self.shape = (2, 5)
        self.dtype = "torch.bfloat16"
        self.layout = "torch.strided"
        self._lazy = lazy

    def data_ptr(self) -> int:
        return 512

    def stride(self) -> tuple[int, ...]:
        return (1, 2)

    def is_conj(self) -> bool:
        return self._lazy.get("conj", False)

    def is_neg(self) -> bool:
        return self._lazy.get("neg", False)


def test_torch_tensors() -> None:
    found = describe(FakeTensor("cuda", 1))
    assert (found.address, found.strides, found.dtype.name) == (512, (1, 2), "bf16")
    assert found.device == "cuda:1"
    assert describe(FakeTensor("cuda")).device == "cuda:0"
    assert describe(FakeTensor()).device == "cpu"


def test_torch_tensors_that_are_not_as_they_lie() -> None:
    with pytest.raises(InvalidTypeError, match="resolve_conj"):
        describe(FakeTensor(neg=True))
    sparse = FakeTensor()
    sparse.layout = "torch.sparse_coo"
    with pytest.raises(InvalidTypeError, match=r"torch.sparse_coo"):
        describe(sparse)
    with pytest.raises(InvalidTypeError, match="expected cpu or cuda, got xpu"):
        describe(FakeTensor("xpu"))


class OnlyDlpack:
    def __init__(self, array: np.ndarray[Any, Any], kind: int = 1) -> None:
        self._array = array
        self._kind = kind

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, 0


def test_dlpack() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    found = describe(OnlyDlpack(array))
    assert (found.address, found.shape, found.strides) == (start(array), (2, 3), (3, 1))
    with pytest.raises(InvalidTypeError, match="DLPack device 10"):
        describe(OnlyDlpack(array, kind=10))


def test_wrapped_arrays_and_foreign_memory() -> None:
    array = np.zeros(3)
    assert describe(SimpleNamespace(t=array)).address == start(array)
    host = SimpleNamespace(__array_interface__=array.__array_interface__)
    assert describe(host).address == start(array)


@pytest.mark.parametrize(
    ("thing", "address"),
    [
        (None, 0),
        (77, 77),
        (np.int64(77), 77),
        (SimpleNamespace(ptr=78), 78),
        (SimpleNamespace(device_ptr=79), 79),
        (SimpleNamespace(t=SimpleNamespace(ptr=80)), 80),
        (FakeTensor(), 512),
    ],
)
def test_addresses(thing: Any, address: int) -> None:
    assert address_of(thing) == address


def test_address_of_arrays_and_of_nothing() -> None:
    array = np.zeros(4)
    assert address_of(array[1:]) == start(array) + 8
    with pytest.raises(InvalidTypeError):
        address_of("text")
    with pytest.raises(InvalidTypeError):
        address_of(True)


@pytest.mark.parametrize("view", [lambda x: x[::-1, ::2], lambda x: x.T, lambda x: x[1:1]])
def test_copies_are_contiguous_and_apart(view: Any) -> None:
    array = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    copied = describe(array).copy()
    np.testing.assert_array_equal(copied.source, array)
    assert copied.source.flags.c_contiguous
    assert not np.shares_memory(copied.source, array)


def test_a_tensor_in_host_memory_is_copied_by_its_strides() -> None:
    array = np.arange(6, dtype=np.int16)
    operand = Operand(
        address=start(array), shape=(3, 2), strides=(1, 3), dtype=describe(array).dtype,
        device="cpu", source=array, keepalive=FakeTensor(),
    )  # fmt: skip
    np.testing.assert_array_equal(operand.copy().source, array.reshape(2, 3).T)

"""What is known of a kernel's parameters, and what a call's arguments become."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.device.null import NullDevice
from ge2rt.raw.arguments import Packer, home_of, look, pack_unchecked
from ge2rt.raw.declarations import declared_parameters
from ge2rt.raw.params import parse_params, resolve_types
from ge2rt.raw.signature import entries_of, local_bytes, signature_of, variable_bytes

F32, F64, I32 = np.float32, np.float64, np.int32
CODE = """
// __global__ void k(int wrong);
const char* text = "__global__ void k(int wrong)";
extern "C" __global__ void __launch_bounds__(256, 2)
k(int n, float a, const float* __restrict__ x, double *y, /* note, */ unsigned long long q,
  struct Pair p, unsigned char flags, __half h, bool on, short s) { if (n < 3) y[0] = x[1]; }
"""
PTX = """
.version 8.8
.target sm_80
.address_size 64
.global .align 4 .u32 count = 3;
.visible .const .align 4 .b8 table[64];
.global .align 8 .u64 pointer;
.extern .global .align 4 .f32 there;
.visible .entry k(
    .param .u32 k_param_0, .param .f32 k_param_1, .param .u64 k_param_2, .param .u64 k_param_3,
    .param .u64 k_param_4, .param .align 8 .b8 k_param_5[16], .param .u8 k_param_6,
    .param .align 2 .b8 k_param_7[2], .param .u8 k_param_8, .param .u16 k_param_9
)
.maxntid 256, 1, 1
{
    .local .align 8 .b8 __local_depot0[40];
    ret;
}
.visible .entry nothing() { ret; }
.visible .entry _Z6scaledPf(.param .u64 _Z6scaledPf_param_0) { ret; }
"""
FORMAT = "<ifQQQ16sB1xHB1xH"  # with C's padding: H at an even offset


def declared(parameters: str, count: int, kernel: str = "k") -> list[tuple[object, ...]]:
    code = f'extern "C" __global__ void k({parameters}) {{}}'
    found = declared_parameters(code, kernel, count)
    return [(d.name, d.pointer, d.element, d.const) for d in found]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("float* x", ("x", True, "float32", False)),
        ("const float *x", ("x", True, "float32", True)),
        ("float const * __restrict__ x", ("x", True, "float32", True)),
        ("float* const x", ("x", True, "float32", False)),
        ("const double x[]", ("x", True, "float64", True)),
        ("unsigned char* p", ("p", True, "uint8", False)),
        ("long long int unsigned *p", ("p", True, "uint64", False)),
        ("std::uint32_t* p", ("p", True, "uint32", False)),
        ("const T* p", ("p", True, "", True)),
        ("float4* p", ("p", True, "", False)),
        ("float** p", ("p", True, "", False)),
        ("const float* const* p", ("p", True, "", False)),
        ("void* p", ("p", True, "", False)),
        ("int n", ("n", False, "int32", False)),
        ("const unsigned n", ("n", False, "uint32", False)),
        ("size_t n", ("n", False, "uint64", False)),
        ("half h", ("h", False, "float16", False)),
        ("Params p", ("p", None, "", False)),
        ("MyPtr p", ("p", None, "", False)),
        ("unsigned", ("", False, "uint32", False)),
    ],
)
def test_a_declaration_is_read(text, wanted):
    assert declared(text, 1) == [wanted]


def test_template_commas_do_not_split():
    found = declared("Array<float, 3> a, int n", 2)
    assert [name for name, *_ in found] == ["a", "n"]


def test_declarations_that_cannot_be_the_one_are_left_out():
    assert declared_parameters(CODE, "k", 3) == ()
    assert declared_parameters(CODE, "other", 10) == ()
    twice = "__global__ void k(float* x) {} __global__ void k(int* x) {}"
    assert declared_parameters(twice, "k", 1) == ()
    forward = "__global__ void k(float*); __global__ void k(float* x) {}"
    assert declared_parameters(forward, "k", 1)[0].element == "float32"
    assert declared_parameters("__global__ void f(T* x) {}", "ns::f<float>", 1)[0].pointer


def signature():
    return signature_of(PTX, "k", CODE, "k")


def test_signature_joins_ptx_and_text():
    found = signature()
    assert str(found).startswith("k(int n, float a, const float* __restrict__ x, double *y,")
    assert [p.offset for p in found.parameters] == [0, 4, 8, 16, 24, 32, 48, 50, 52, 54]
    assert found.nbytes == 56
    assert [p.pointer for p in found.parameters[:6]] == [False, False, True, True, False, False]
    assert found.parameters[5].aggregate
    bare = signature_of(PTX, "k", "", "k")
    assert str(bare).startswith("k(.u32, .f32, .u64, .u64, .u64, 16-byte struct, .u8,")
    assert bare.parameters[2].pointer is None
    assert str(signature_of(PTX, "nothing", "", "nothing")) == "nothing()"


def test_entries_variables_and_local_memory():
    assert entries_of(PTX) == ["k", "nothing", "_Z6scaledPf"]
    sizes = [variable_bytes(PTX, n) for n in ("count", "table", "pointer", "there", "missing")]
    assert sizes == [4, 64, 8, 4, 0]
    assert [local_bytes(PTX, n) for n in ("k", "nothing")] == [40, 0]
    with pytest.raises(InvalidArgumentError, match="k, nothing, _Z6scaledPf"):
        signature_of(PTX, "k_", "", "k_")


def good() -> list[object]:
    return [7, 2.5, np.zeros(4, F32), np.zeros(4), 2**64 - 1, bytes(range(16)), 255,
            np.float16(1), True, -3]  # fmt: skip


def pack(*changes: tuple[int, object], code: str = CODE) -> bytes:
    values = good()
    for index, value in changes:
        values[index] = value
    seen = [look(value, index) for index, value in enumerate(values)]
    return Packer(signature_of(PTX, "k", code, "k"), NullDevice()).pack(seen)


def test_packing_is_cs_layout():
    x, y = np.zeros(4, F32), np.zeros(4)
    block = pack((2, x), (3, y))
    expected = struct.pack(
        FORMAT, 7, 2.5, x.ctypes.data, y.ctypes.data, 2**64 - 1, bytes(range(16)), 255,
        0x3C00, 1, 0xFFFD,
    )  # fmt: skip
    assert block == expected


@pytest.mark.parametrize(
    ("index", "value", "offset", "data"),
    [
        (0, I32(-1), 0, b"\xff" * 4),
        (0, np.uint32(2**32 - 1), 0, b"\xff" * 4),
        (0, True, 0, b"\1\0\0\0"),
        (0, np.array(5, I32), 0, b"\5\0\0\0"),
        (0, ctypes.c_int(6), 0, b"\6\0\0\0"),
        (1, 3, 4, struct.pack("<f", 3)),
        (1, F32(0.1), 4, struct.pack("<f", 0.1)),
        (1, float("inf"), 4, struct.pack("<f", float("inf"))),
        (2, None, 8, bytes(8)),
        (2, 0x1000, 8, struct.pack("<Q", 0x1000)),
        (2, np.uint64(0x1000), 8, struct.pack("<Q", 0x1000)),
        (4, np.int64(-1), 24, b"\xff" * 8),
        (5, np.void(b"0123456789abcdef"), 32, b"0123456789abcdef"),
        (5, np.array((1, 2.0), [("a", "i8"), ("b", "f8")]), 32, struct.pack("<qd", 1, 2)),
        (5, np.array([1, 2.0, 3, 4], F32), 32, struct.pack("<4f", 1, 2, 3, 4)),
        (5, bytearray(16), 32, bytes(16)),
        (5, 1 + 2j, 32, struct.pack("<2d", 1, 2)),
        (6, np.uint8(9), 48, b"\x09"),
        (8, np.bool_(True), 52, b"\x01"),
    ],
)
def test_what_may_be_passed(index, value, offset, data):
    assert pack((index, value))[offset : offset + len(data)] == data


@pytest.mark.parametrize(
    ("index", "value", "what"),
    [
        (0, 1.5, "an integer is needed"),
        (0, np.int64(1), "expected numpy.int32"),
        (0, F32(1), "expected numpy.int32"),
        (0, 2**31, "out of range"),
        (0, -(2**31) - 1, "out of range"),
        (0, None, "an integer is needed"),
        (0, np.zeros(1, I32), "a scalar is needed, not an array"),
        (1, F64(2), "expected numpy.float32"),
        (1, I32(2), "expected numpy.float32"),
        (1, 1e300, "out of range"),
        (1, "2", "a number is needed"),
        (1, np.zeros(3, F32), "a scalar is needed, not an array"),
        (2, 2.0, "a pointer is needed"),
        (2, [1.0, 2.0], r"make an array of it, numpy\.array\(x, numpy\.float32\)"),
        (2, {"x": 1}, "pass an array, an address as int, or None; the kernel is"),
        (2, True, "a pointer is needed"),
        (2, -1, "not an address"),
        (2, np.zeros(3, F64), "an array of another dtype; expected float32"),
        (2, np.zeros(3, I32), "reinterpret its bytes with .view"),
        (3, np.frombuffer(bytes(16), F64), "the array is read-only"),
        (3, np.zeros(33, np.uint8)[1:].view(F64), "not aligned"),
        (4, np.zeros(3), "a scalar is needed, not an array"),
        (4, -1, "out of range"),
        (5, bytes(15), "a struct of another size; expected 16 bytes"),
        (5, 1.0, "a struct is passed by value"),
        (5, {"n": 1}, "pass bytes, a numpy.void or 0-d array of a structured dtype, or a ctypes"),
        (5, (1, 2.0), "a struct is passed by value"),
        (5, np.float32(1), "a struct of another size"),
        (6, 256, "out of range"),
        (7, 1.0, "pass a scalar of dtype float16"),
        (8, 2, "out of range"),
        (9, 2**15, "out of range"),
    ],
)
def test_what_is_refused(index, value, what):
    with pytest.raises(InvalidArgumentError, match=what) as caught:
        pack((index, value))
    assert isinstance(caught.value, (TypeError, ValueError))
    assert f"args[{index}]" in caught.value.record.argument
    assert "the kernel is " in str(caught.value)


def test_a_refusal_names_kernel_argument_and_signature():
    with pytest.raises(InvalidTypeError) as caught:
        pack((1, F64(2)))
    record = caught.value.record
    assert (record.kernel, record.argument, record.code) == ("k", "args[1] a", -1)
    assert record.got == "numpy.float64"
    assert "the kernel is k(int n, float a," in record.next_step
    with pytest.raises(InvalidArgumentError, match=r"expected 10: k\(int n, float a, .*got 2"):
        Packer(signature(), NullDevice()).pack([1, 2])


def test_const_pointers_take_read_only_arrays_and_bytes_are_memory_of_any_type():
    assert pack((2, np.frombuffer(bytes(16), F32)))
    assert pack((2, np.zeros(16, np.uint8)), (3, np.zeros(16, np.int8)))
    assert pack((2, np.zeros(2, np.complex64)))
    assert pack((2, np.zeros(2, [("a", F32)])))


def test_what_nobody_knows_is_not_checked():
    assert pack((2, np.zeros(3)), (3, np.zeros(3, I32)), (4, np.zeros(3)), (0, 2**32 - 1), code="")
    assert pack((2, -5), code="")[8:16] == struct.pack("<q", -5)
    with pytest.raises(InvalidArgumentError, match="a scalar is needed"):
        pack((0, np.zeros(3)), code="")


class OnGpu:
    device = None

    def __init__(self, typestr: str = "<f4") -> None:
        self.dtype = np.dtype(typestr)
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (4,), "typestr": typestr, "data": (0x2000, False),
        }  # fmt: skip


def test_the_home_of_a_call_is_where_its_arrays_lie():
    struct_ = np.array((1, 2), [("a", "i8"), ("b", "i8")])
    assert home_of([1, None]) is None
    assert home_of([look(struct_, 0)]) is None
    assert home_of([look(struct_, 0), look(np.zeros(3), 1)]) == "cpu"
    assert home_of([look(OnGpu(), 0), look(np.zeros(3), 1)]) == "cuda:0"
    loose = look(OnGpu("<c8"), 0)
    assert (loose.address, loose.home, loose.dtype) == (0x2000, "cuda:0", "complex64")
    with pytest.raises(InvalidArgumentError, match="lies on another device than null"):
        pack((2, OnGpu()))


def test_without_a_signature_sizes_are_cupys():
    x = np.zeros(3)
    block = pack_unchecked([look(v, 0) for v in (True, 3, F32(1), 2.0, x, I32(4), None)])
    assert block == struct.pack("<B7xqf4xdQi4xQ", 1, 3, 1, 2.0, x.ctypes.data, 4, 0)


def test_parameter_language():
    found = parse_params("T x, raw float32 y,const  int8 z", "k")
    assert [(s.name, s.type, s.raw) for s in found] == [
        ("x", "T", False), ("y", "", True), ("z", "", False),
    ]  # fmt: skip
    assert [s.dtype and s.dtype.name for s in found] == [None, "f32", "i8"]
    assert parse_params("", "k") == ()
    for text, what in [
        ("T", "cannot be read"), ("T x, , T y", "cannot be read"),
        ("complex64 x", "no type for a parameter"), ("flaot x", "mend the text 'flaot x'"),
        ("nothing x", "one letter"), ("T i", "reserved"), ("T n", "reserved"), ("T _x", "reserved"),
    ]:  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=what):
            parse_params(text, "k")


def test_types_come_from_arrays_then_numpy_scalars_then_numbers():
    specs = parse_params("T x, T y, U z", "k")
    f32 = parse_params("float32 x", "k")[0].dtype

    def resolved(dtypes, values):
        return {k: v.name for k, v in resolve_types(specs, dtypes, values, "k").items()}

    assert resolved([None, f32, None], [F64(2), None, 3]) == {"T": "f32", "U": "i64"}
    assert resolved([None] * 3, [3, np.int8(2), 1.5]) == {"T": "i8", "U": "f64"}
    assert resolved([None] * 3, [True, 2, True]) == {"T": "bool", "U": "bool"}
    with pytest.raises(InvalidTypeError, match="type U follows from no argument"):
        resolved([f32, f32, None], [None] * 3)

"""Programs on the CPU device: values, views, reuse, faults, threads, checks, the native call."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref

import numpy as np
import pytest
from program_samples import Builder, sums, take_kernel, take_program

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import DeviceError, InvalidArgumentError, InvalidTypeError
from ge2rt.device.registry import get_device
from ge2rt.fuse.program import View
from ge2rt.run import blas as blas_room
from ge2rt.run import program as programs
from ge2rt.run import program_native, specialize, stub
from ge2rt.run.program import Executable
from ge2rt.run.program_arrays import Arena
from ge2rt.spec.model import BufferDesc

_FIELDS_OF_NAME = 56  # where a ufunc has its name: no types there
RNG = np.random.default_rng(0)


def executable(program):
    return Executable(program, get_device("cpu"))


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.fixture(scope="module", autouse=True)
def with_the_stub():
    """The launch stub, even where a whole run is done without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GE2RT_NO_STUB", raising=False)
        stub.clear()
        yield
    stub.clear()


@pytest.fixture(params=[True, False], ids=["native", "python"])
def native(request, monkeypatch):
    """Runs a test twice: programs in native code, and step by step from Python."""
    if not request.param:
        monkeypatch.setattr(programs, "native_call", lambda *_: None)
        monkeypatch.setattr(programs, "_LEAST_NATIVE", 10**9)
    return request.param


@pytest.mark.parametrize("steps", [1, 2, 7, 150])
def test_a_chain_of_steps(native, steps):
    exe = executable(sums(steps))
    x, y = np.arange(1024, dtype=np.float32), np.ones(1024, np.float32)
    (out,) = exe.run([x, y])
    assert np.array_equal(out, x + steps)
    # every other value lies in the output, until that is written
    assert exe.workspace == 4096 * (0 if steps == 1 else 1 if steps == 2 or steps % 2 else 2)
    assert (exe.function(lambda *_: None) is not None) == native


def test_equal_steps_share_one_plan():
    exe = executable(sums(9))
    assert len({id(run.plan) for run in exe.steps}) == 1


def test_equal_steps_on_other_parts_of_a_buffer_share_one_plan():
    made = Builder()
    x = made.buffer("input", 6, 64)
    y = made.buffer("output", 6, 64)
    for row in range(6):
        made.kernel("UNARY", [View(x, (64,), (1,), row * 64)],
                    [View(y, (64,), (1,), (5 - row) * 64)], op="neg")  # fmt: skip
    exe = executable(made.program())
    assert len({id(run.plan) for run in exe.steps}) == 1
    x = floats(6, 64)
    assert np.array_equal(exe.run([x])[0], -x[::-1])


def test_views_of_inputs_and_temporaries(native):
    made = Builder()
    x = made.buffer("input", 6, 5)
    t = made.buffer("temp", 5, 6)
    y = made.buffer("output", 5, 6)
    made.kernel("UNARY", [View(x, (5, 6), (1, 5))], [t], op="neg")
    made.kernel("BINARY", [t, View(t, (5, 6), (6, 0), 5)], [y], op="add")
    x = floats(6, 5)
    t = -x.T
    assert np.array_equal(executable(made.program()).run([x])[0], t + t[:, 5:])


def test_several_outputs_and_no_inputs(native):
    made = Builder()
    first, second = made.buffer("output", 300), made.buffer("output", 2, 3)
    made.kernel("UNARY", [View(first, (2, 3), (3, 1), 7)], [second], op="identity")
    made.steps.insert(0, made.steps.pop())  # what first holds does not matter here
    outs = executable(made.program()).run([])
    assert [o.shape for o in outs] == [(300,), (2, 3)]


def test_outputs_are_fresh_and_inputs_are_left_alone(native):
    exe = executable(sums(3, 100))
    x, y = floats(100), floats(100)
    before = x.copy(), y.copy()
    first = exe.run([x, y])[0]
    kept = first.copy()
    second = exe.run([y, y])[0]
    assert not np.shares_memory(first, second)
    assert np.array_equal(first, kept)
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])


def test_the_same_array_twice(native):
    exe = executable(sums(1, 100))
    x = floats(100)
    assert np.array_equal(exe.run([x, x])[0], x + x)


def test_inputs_that_are_not_at_16_bytes(native):
    exe = executable(sums(3, 1001))
    x, y = floats(1002)[1:], floats(1004)[3:]
    y = y[:1001]
    assert np.array_equal(exe.run([x, y])[0], x + y + y + y)
    plans = [run.plan for run in exe.steps]
    assert all(False in plan._variants for plan in plans)  # code that asks for no alignment


def test_inputs_that_are_not_at_whole_elements(native):
    exe = executable(sums(2, 100))
    raw = np.zeros(401, np.uint8)
    x = raw[1:].view(np.float32)
    x[:] = np.arange(100)
    assert np.array_equal(exe.run([x, x])[0], 3 * np.arange(100))


def test_strides_of_inputs_are_those_of_the_program(native):
    made = Builder()
    x = made.buffer("input", 4, 6, strides=(1, 4))
    made.kernel("UNARY", [x], [made.buffer("output", 4, 6)], op="neg")
    exe = executable(made.program())
    x = floats(6, 4).T
    assert np.array_equal(exe.run([x])[0], -x)
    with pytest.raises(TypeError, match=r"other byte strides than this specialization.*\[4, 16\]"):
        exe.run([np.ascontiguousarray(x)])


def test_strides_of_axes_with_one_element_do_not_matter(native):
    made = Builder()
    made.kernel("UNARY", [made.buffer("input", 1, 8)], [made.buffer("output", 1, 8)], op="neg")
    exe = executable(made.program())
    x = floats(3, 8)[1:2]
    x = np.lib.stride_tricks.as_strided(x, (1, 8), (12345, 4))
    assert np.array_equal(exe.run([x])[0], -x)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ([np.zeros(8, np.float64), np.zeros(8, np.float32)], "another dtype.*f32.*f64"),
        ([np.zeros(9, np.float32), np.zeros(8, np.float32)], r"another shape.*\[8\].*\[9\]"),
        ([np.zeros((8, 1), np.float32), np.zeros(8, np.float32)], "another shape"),
        ([np.zeros(8, ">f4"), np.zeros(8, np.float32)], "dtype cannot be used"),
        ([np.zeros(8, np.float32)], "wrong number of arrays.*expected 2, got 1"),
        ([np.zeros(8, np.float32), [1.0] * 8], r"arrays\[1\]"),
    ],
)
def test_other_arrays_are_refused(native, arrays, text):
    with pytest.raises(InvalidTypeError, match=text):
        executable(sums(2, 8)).run(arrays)


def test_subclasses_and_read_only_inputs_are_taken(native):
    class Mine(np.ndarray):
        pass

    exe = executable(sums(2, 8))
    x = floats(8)
    x.flags.writeable = False
    (out,) = exe.run([x.view(Mine), x])
    assert type(out) in (np.ndarray, Mine)
    assert np.array_equal(out, 3 * x)


def test_zero_size(native):
    exe = executable(sums(3, 0))
    assert exe.run([floats(0), floats(0)])[0].shape == (0,)
    made = Builder()
    made.kernel(
        "REDUCE", [made.buffer("input", 4, 0)], [made.buffer("output", 4)], op="sum", axes=(1,)
    )
    assert np.array_equal(executable(made.program()).run([floats(4, 0)])[0], np.zeros(4))


def test_rank_zero(native):
    made = Builder()
    x = made.buffer("input")
    made.kernel("BINARY", [x, x], [made.buffer("output")], op="mul")
    (out,) = executable(made.program()).run([np.array(3.0, np.float32)])
    assert out.shape == ()
    assert out == 9


# -- products by the library ---------------------------------------------------------------------


@pytest.fixture(params=["loop", "np.matmul"])
def blas(request, monkeypatch):
    """Runs a test twice: products by NumPy's inner loop, and by ``np.matmul`` from Python."""
    if request.param != "loop":
        monkeypatch.setattr(program_native, "matmul_loop", lambda dtype: None)
    return request.param


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_product_between_kernels(blas, dtype):
    made = Builder()
    a = made.buffer("input", 3, 5, 7, dtype=dtype)
    b = made.buffer("input", 3, 4, 7, dtype=dtype)
    t, u = made.buffer("temp", 3, 5, 7, dtype=dtype), made.buffer("temp", 3, 5, 4, dtype=dtype)
    made.kernel("UNARY", [a], [t], op="neg")
    made.matmul(t, View(b, (3, 7, 4), (28, 1, 7)), u, reason="asked for")
    made.kernel("UNARY", [u], [made.buffer("output", 3, 5, 4, dtype=dtype)], op="abs")
    exe = executable(made.program())
    for _ in range(3):
        a, b = (floats(*s, dtype={"f32": "f4", "f64": "f8"}[dtype]) for s in [(3, 5, 7), (3, 4, 7)])
        wanted = np.abs(-a @ b.swapaxes(1, 2))
        assert np.allclose(exe.run([a, b])[0], wanted, rtol=1e-5, atol=1e-5)
    assert (exe.function(lambda *_: None) is not None) == (blas == "loop")
    assert "NumPy's BLAS: asked for" in exe.steps[1].reason


@pytest.mark.parametrize(
    ("batch", "order"),
    [((), (0, 1)), ((6,), (0, 1, 2)), ((2, 3), (0, 1, 2, 3)), ((2, 3), (0, 2, 1, 3)),
     ((2, 3, 4), (2, 0, 1, 3, 4)), ((1, 5), (0, 2, 1, 3)), ((400, 2), (1, 0, 2, 3))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("offset", [0, 3])
def test_batches_of_products_that_lie_anyhow(blas, batch, order, offset):
    """The first factor is a permuted view, the second has its matrices transposed."""
    m, k, n = 3, 4, 5
    full = [0] * (len(batch) + 2)
    for place, axis in enumerate(order):
        full[axis] = (*batch, m, k)[place]
    a = np.ascontiguousarray(floats(offset + int(np.prod(full))))
    view = a[offset:].reshape(full).transpose(order)
    b = floats(*batch, n, k)
    made = Builder()
    x = made.buffer("input", a.size)
    w = made.buffer("input", *b.shape)
    out = made.buffer("output", *batch, m, n)
    turned = b.swapaxes(-1, -2)
    made.matmul(View(x, view.shape, tuple(s // 4 for s in view.strides), offset),
                View(w, turned.shape, tuple(s // 4 for s in turned.strides)), out)  # fmt: skip
    exe = executable(made.program())
    wanted = view @ turned
    assert np.allclose(exe.run([a, b])[0], wanted, rtol=1e-5, atol=1e-5)
    native = blas == "loop" and batch != (400, 2)
    assert (exe.function(lambda *_: None) is not None) == native


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("m", "n"), [(3, 700), (6, 700), (7, 700), (700, 3), (700, 7)])
def test_thin_products(m, n, turned):
    k = 600
    made = Builder()
    a, b = floats(m, k), floats(k, n)
    shapes = [(k, m), (n, k)] if turned else [(m, k), (k, n)]
    x, w = (made.buffer("input", *shape) for shape in shapes)
    views = [View(x, (m, k), (1, m)), View(w, (k, n), (1, k))] if turned else [x, w]
    made.matmul(*views, made.buffer("output", m, n))
    given = [np.ascontiguousarray(v.T) for v in (a, b)] if turned else [a, b]
    assert np.allclose(executable(made.program()).run(given)[0], a @ b, rtol=1e-4, atol=1e-4)


def test_few_rows_of_a_large_matrix_go_one_by_one():
    def dimensions(m, k, n, transposed=False):
        strides = (1, k) if transposed else (n, 1)
        shapes = [((m, k), (k, 1)), ((k, n), strides), ((m, n), (n, 1))]
        (product,) = blas_room.products([BufferDesc(s, DTYPES["f32"], t) for s, t in shapes])
        return product.dimensions

    assert dimensions(3, 768, 3072) == (3, 1, 768, 3072)
    assert dimensions(8, 768, 3072) == (1, 8, 768, 3072)
    assert dimensions(8, 768, 3072, transposed=True) == (8, 1, 768, 3072)
    assert dimensions(3, 64, 64) == (1, 3, 64, 64)
    assert dimensions(3072, 768, 3) == (3, 3072, 768, 1)


def test_a_broadcast_factor(blas):
    made = Builder()
    a, b = made.buffer("input", 4, 3), made.buffer("input", 6, 3, 5)
    made.matmul(View(a, (6, 4, 3), (0, 3, 1)), b, made.buffer("output", 6, 4, 5))
    a, b = floats(4, 3), floats(6, 3, 5)
    assert np.allclose(executable(made.program()).run([a, b])[0], a @ b, rtol=1e-5, atol=1e-5)


def test_an_empty_sum_is_zero(blas):
    made = Builder()
    made.matmul(made.buffer("input", 4, 0), made.buffer("input", 0, 5), made.buffer("output", 4, 5))
    (out,) = executable(made.program()).run([floats(4, 0), floats(0, 5)])
    assert np.array_equal(out, np.zeros((4, 5)))


def test_the_loop_is_used_only_if_it_multiplies(monkeypatch):
    blas_room.matmul_loop.cache_clear()
    assert blas_room.matmul_loop(np.dtype("f4")) is not None
    assert blas_room.matmul_loop(np.dtype("M8[s]")) is None
    blas_room.matmul_loop.cache_clear()
    monkeypatch.setitem(blas_room._FIELDS, "types", _FIELDS_OF_NAME)
    assert blas_room.matmul_loop(np.dtype("f4")) is None
    monkeypatch.undo()
    blas_room.matmul_loop.cache_clear()
    monkeypatch.setattr(blas_room.np, "matmul", np.add)
    wrong = blas_room.matmul_loop(np.dtype("f8"))
    monkeypatch.undo()
    blas_room.matmul_loop.cache_clear()
    assert wrong is None


def test_a_product_warns_as_little_as_a_kernel(blas):
    made = Builder()
    a = made.buffer("input", 2, 2)
    made.matmul(a, a, made.buffer("output", 2, 2))
    x = np.array([[np.inf, 0], [1e38, 1e38]], np.float32)
    (out,) = executable(made.program()).run([x])
    with np.errstate(all="ignore"):
        assert np.array_equal(out, x @ x, equal_nan=True)


# -- index faults --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def take(tmp_path_factory):
    return take_kernel(tmp_path_factory.mktemp("take"))


def test_an_index_outside_is_a_value_error_that_names_the_step(native, take):
    exe = executable(take_program(take, 10, 5))
    x = floats(10)
    good = np.array([0, 9, 3, 3, 1], np.int32)
    bad = np.array([0, 9, 10, 3, 1], np.int32)
    for _ in range(2):  # and the next call is not hurt by it
        assert np.array_equal(exe.run([x, good, good])[0], 2 * x[good])
        with pytest.raises(ValueError, match=r"step 'take j': sample: an index lies outside"):
            exe.run([x, good, bad])
        with pytest.raises(InvalidArgumentError, match=r"step 'take i': sample: an index lies"):
            exe.run([x, bad, good])


def test_the_native_call_tells_index_faults_too(take):
    exe = executable(take_program(take, 10, 5))
    call = exe.function(lambda *_: "missed", single=True)
    x, good = floats(10), np.arange(5, dtype=np.int32)
    assert np.array_equal(call(x, good, good), 2 * x[:5])
    with pytest.raises(ValueError, match=r"step 'take j': sample: an index lies outside"):
        call(x, good, good - 1)
    assert np.array_equal(call(x, good, good), 2 * x[:5])


# -- the native call -----------------------------------------------------------------------------


@pytest.fixture
def call():
    missed = []

    def miss(*args):
        missed.append(args)
        return "missed"

    made = executable(sums(2, 12)).function(miss, single=True)
    assert made is not None
    return made, missed


def test_a_native_call_gives_the_output(call):
    function, missed = call
    x, y = floats(12), floats(12)
    out = function(x, y)
    assert type(out) is np.ndarray
    assert np.array_equal(out, x + y + y)
    assert not missed


class Sub(np.ndarray):
    pass


@pytest.mark.parametrize(
    "args",
    [
        (),
        (np.zeros(12, np.float32),),
        (np.zeros(12, np.float32),) * 3,
        (np.zeros(12, np.float32), np.zeros(12)),
        (np.zeros(12, np.float32), np.zeros(12, np.int32)),
        (np.zeros(12, np.float32), np.zeros(12, ">f4")),
        (np.zeros(12, np.float32), np.zeros(13, np.float32)),
        (np.zeros(12, np.float32), np.zeros((1, 12), np.float32)),
        (np.zeros(12, np.float32), np.zeros((3, 4), np.float32)),
        (np.zeros(12, np.float32), np.zeros(24, np.float32)[::2]),
        (np.zeros(12, np.float32), np.zeros(12, np.float32)[::-1]),
        (np.zeros(12, np.float32), np.zeros(13, np.float32)[1:]),
        (np.zeros(12, np.float32), np.zeros(12, np.float32).view(Sub)),
        (np.zeros(12, np.float32), None),
        (np.zeros(12, np.float32), 3),
        (np.zeros(12, np.float32), [0.0] * 12),
        ("x", np.zeros(12, np.float32)),
    ],
    ids=str,
)
def test_whatever_differs_is_missed_with_its_arguments(call, args):
    function, missed = call
    assert function(*args) == "missed"
    ((got,),) = (missed,)
    assert all(a is b for a, b in zip(got, args, strict=True))


def test_native_calls_chain():
    small, large = executable(sums(1, 8)), executable(sums(1, 9))
    function = large.function(small.function(lambda *_: "neither", single=True), single=True)
    assert function(floats(8), floats(8)).shape == (8,)
    assert function(floats(9), floats(9)).shape == (9,)
    assert function(floats(10), floats(10)) == "neither"


def test_functions_are_asked_in_turn():
    miss, calls = object(), []

    def slow(*args, **kwargs):
        calls.append((args, kwargs))
        return "slow"

    first = executable(sums(1, 8)).function(lambda *_: miss, single=True)
    second = executable(sums(1, 9)).function(lambda *_: miss, single=True)
    cell = [()]
    function = program_native.dispatcher(cell, miss, slow)
    x, y = floats(8), floats(9)
    assert function(x, x) == "slow"
    cell[0] = (first, second)
    assert np.array_equal(function(x, x), x + x)
    assert np.array_equal(function(y, y), y + y)
    assert function(x, y) == "slow"
    assert function(x, b=y) == "slow"
    assert function() == "slow"
    assert calls == [((x, x), {}), ((x, y), {}), ((x,), {"b": y}), ((), {})]


def test_an_error_ends_the_asking():
    def fails(*_):
        cell[0] = ()  # while it is in use
        raise KeyError("mine")

    cell = [(fails,)]
    function = program_native.dispatcher(cell, None, lambda: "slow")
    with pytest.raises(KeyError, match="mine"):
        function()
    assert function() == "slow"


def test_dispatching_leaks_nothing():
    miss = object()
    cell = [(lambda *_: miss, lambda *_: miss)]
    function = program_native.dispatcher(cell, miss, lambda *_: None)
    counts = [sys.getrefcount(thing) for thing in (miss, cell[0], None)]
    for _ in range(1000):
        function(1, 2)
    after = [sys.getrefcount(thing) for thing in (miss, cell[0], None)]
    assert after[:2] == counts[:2]
    assert abs(after[2] - counts[2]) < 100


def test_outputs_by_np_empty_where_numpys_table_is_another(monkeypatch):
    assert program_native.new_array()
    monkeypatch.setattr(program_native, "new_array", lambda: 0)
    function = executable(sums(2, 12)).function(lambda *_: "missed", single=True)
    x = floats(12)
    assert np.array_equal(function(x, x), x + x + x)


def test_what_a_miss_raises_is_passed_on(call):
    def miss(*_):
        raise KeyError("mine")

    function = executable(sums(1, 8)).function(miss)
    with pytest.raises(KeyError, match="mine"):
        function(1)


def test_several_outputs_are_a_tuple():
    made = Builder()
    x = made.buffer("input", 20)
    made.kernel("UNARY", [x], [made.buffer("output", 20)], op="neg")
    made.kernel("UNARY", [x], [made.buffer("output", 20)], op="abs")
    function = executable(made.program()).function(lambda *_: None, single=True)
    x = floats(20)
    first, second = function(x)
    assert np.array_equal(first, -x)
    assert np.array_equal(second, np.abs(x))


def test_nothing_is_leaked():
    function = executable(sums(2, 12)).function(lambda *_: None, single=True)
    x = floats(12)
    out = function(x, x)
    counts = [sys.getrefcount(thing) for thing in (x, x.dtype, np.empty, out)]
    for _ in range(1000):
        function(x, x)
        function(x)
    assert [sys.getrefcount(thing) for thing in (x, x.dtype, np.empty, out)] == counts


def test_an_executable_and_its_memory_go_with_their_last_user(monkeypatch):
    closed = []
    monkeypatch.setattr(Arena, "close", lambda self: closed.append(self))
    exe = executable(sums(3, 12))
    exe.run([floats(12), floats(12)])
    live = len(exe.device.memory.live())
    function = exe.function(lambda *_: None)
    there = weakref.ref(exe)
    del exe
    gc.collect()
    assert there() is not None  # the function holds it
    del function
    gc.collect()
    assert there() is None
    assert len(get_device("cpu").memory.live()) < live


# -- threads, signals, checks --------------------------------------------------------------------


def test_threads_do_not_share_temporaries(native):
    n = 200_000
    exe = executable(sums(6, n))
    wrong = []

    def work(number):
        x, y = np.full(n, number, np.float32), np.ones(n, np.float32)
        for _ in range(15):
            if not np.array_equal(exe.run([x, y])[0], x + 6):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_busy_native_call_hands_the_next_one_on():
    n = 4_000_000
    others, started = [], threading.Event()
    function = executable(sums(12, n)).function(lambda *_: "busy", single=True)
    x = np.ones(n, np.float32)

    def work():
        started.set()
        others.append(function(x, x))

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    while thread.is_alive():
        others.append(function(x, x))
    thread.join()
    results = [out for out in others if not isinstance(out, str)]
    assert results
    assert all(np.array_equal(out, x * 13) for out in results)


def test_an_axis_with_one_element_may_have_any_stride_in_a_native_call():
    made = Builder()
    made.kernel("UNARY", [made.buffer("input", 1, 8)], [made.buffer("output", 1, 8)], op="neg")
    function = executable(made.program()).function(lambda *_: "missed", single=True)
    x = np.lib.stride_tricks.as_strided(floats(8), (1, 8), (12344, 4))
    assert np.array_equal(function(x), -x)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_ctrl_c_stops_a_program(native):
    """The handler runs between two of many short launches: the values are not final yet."""
    steps, n = 401, 1_000_000  # odd: all values in the arena lie in one place
    exe = executable(sums(steps, n))
    x, y = np.zeros(n, np.float32), np.ones(n, np.float32)
    before = {address for address, _ in exe.device.memory.live()}
    exe.run([x, y])
    ((arena, nbytes),) = [own for own in exe.device.memory.live() if own[0] not in before]
    seen = []

    def handler(*_):
        values = np.frombuffer(exe.device.memory.read(arena, nbytes), np.float32)[n // 2 :: n]
        seen.append(values.max())
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        with pytest.raises(KeyboardInterrupt):
            exe.run([x, y])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert 0 < seen[0] < steps - 2
    assert np.array_equal(exe.run([x, y])[0], np.full(n, steps))


def test_checks_reach_the_steps_of_a_program(monkeypatch, take, tmp_path):
    monkeypatch.setenv("GE2RT_CHECK", "memory,race,init,sync")
    exe = executable(sums(3, 100))
    x = floats(100)
    assert np.array_equal(exe.run([x, x])[0], x + x + x + x)
    assert exe.function(lambda *_: None) is None
    bad = take_kernel(tmp_path)
    template = tmp_path / "templates" / "take.cu.j2"
    template.write_text(template.read_text().replace("Y[i] =", "Y[i + 1] ="))
    exe = executable(take_program(bad, 10, 5))
    with pytest.raises(DeviceError, match=r"(?s)take.*write.*output Y"):
        exe.run([floats(10), *[np.zeros(5, np.int32)] * 2])


def test_a_fault_of_a_kernel_names_the_step(native, tmp_path):
    kernel = take_kernel(tmp_path)
    template = tmp_path / "templates" / "take.cu.j2"
    template.write_text(template.read_text().replace("FAULT[0] = 1;", "__trap();"))
    exe = executable(take_program(kernel, 10, 5))
    x, good = floats(10), np.arange(5, dtype=np.int32)
    assert np.array_equal(exe.run([x, good, good])[0], 2 * x[:5])
    with pytest.raises(DeviceError, match=r"take.*trap instruction"):
        exe.run([x, good, good + 90])
    assert np.array_equal(exe.run([x, good, good])[0], 2 * x[:5])


def test_an_unknown_op_type_says_where(native):
    made = Builder("mine")
    made.kernel(
        "UNARY", [made.buffer("input", 3, dtype="i32")], [made.buffer("output", 3)], op="neg"
    )
    with pytest.raises(InvalidArgumentError, match="step 0 of mine"):
        executable(made.program())


def test_the_plan_as_text():
    specialize.clear()
    text = str(executable(sums(3, 64)))
    assert "plan sample on cpu: 3 steps, 256 bytes of workspace" in text
    assert "%2: f32[64] temp in %4 (256 bytes)" in text
    assert "%3: f32[64] temp at +0 (256 bytes)" in text
    assert "2: %4[64:1] = BINARY(%3[64:1], %1[64:1])  # sum 2" in text
    assert "elementwise_binary<<<(1,1,1), (256,1,1), 0>>> compiled for this shape" in text
    assert "-> elementwise_binary: 60 = declared 60" in text

"""Problems: spaces, index width, arguments, geometry; facts and repack."""

from __future__ import annotations

import build_samples as bs
import pytest

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.build.facts import facts
from ge2rt.build.problem import make_problem, repack, with_alignment
from ge2rt.build.spaces import is_flat, space_vector
from ge2rt.spec.model import AttrSpec, BufferSpec

S = ("*S",)


def elementwise(x, y, **parts):
    return bs.bound(bs.kernel("", **parts), [x, y])


def space_of(bound, name="it"):
    return make_problem(bound, bs.PROPS).spaces[name]


def test_contiguous_operands_collapse_to_one_axis():
    space = space_of(elementwise(bs.desc((4, 5, 6)), bs.desc((4, 5, 6))))
    assert space.shape == (120,)
    assert space.strides == {"X": (1,), "Y": (1,)}
    assert is_flat(space)


def test_a_transposed_output_is_walked_along_its_memory():
    x, y = bs.desc((64, 128), strides=(1, 64)), bs.desc((64, 128), strides=(1, 64))
    space = space_of(elementwise(x, y))
    assert space.shape == (8192,)
    assert space.strides["Y"] == (1,)


def test_an_ordered_kernel_keeps_the_logical_order():
    y = bs.desc((64, 128), strides=(1, 64))
    space = space_of(elementwise(y, y, flags={"ordered": True}))
    assert space.shape == (64, 128)
    assert space.strides["Y"] == (1, 64)


def test_transposed_input_stays_two_axes_and_is_not_flat():
    space = space_of(elementwise(bs.desc((64, 128), strides=(1, 64)), bs.desc((64, 128))))
    assert space.shape == (64, 128)
    assert space.strides == {"X": (1, 64), "Y": (128, 1)}
    assert not is_flat(space)


def test_one_element_and_size_one_axes():
    assert space_of(elementwise(bs.desc((1, 1)), bs.desc((1, 1)))).shape == ()
    space = space_of(elementwise(bs.desc((3, 1, 5)), bs.desc((3, 1, 5))))
    assert space.shape == (15,)


def test_broadcast_reads_stride_zero():
    spec = bs.kernel("", inputs=[BufferSpec("X", "input", "T", ("*SX",))])
    space = space_of(bs.bound(spec, [bs.desc((5,)), bs.desc((3, 5))]))
    assert space.shape == (3, 5)
    assert space.strides == {"X": (0, 1), "Y": (5, 1)}


def reduction(x, y, **attrs):
    spec = bs.kernel(
        "",
        outputs=[BufferSpec("Y", "output", "T", ("*R",))],
        iterate={
            "red": (["X"], "axes_of(axes, rank(X))"),
            "out": (["X", "Y"], "kept(axes, rank(X))"),
        },
        attrs=[AttrSpec("axes", "ints", ())],
        grid=["max(out_size, 1)"],
    )
    return bs.bound(spec, [x, y], **attrs)


def test_reduction_spaces_with_and_without_kept_axes():
    problem = make_problem(reduction(bs.desc((4, 5, 6)), bs.desc((4, 6)), axes=(1,)), bs.PROPS)
    assert problem.spaces["red"].shape == (5,)
    assert problem.spaces["red"].strides == {"X": (6,)}
    assert problem.spaces["out"].shape == (4, 6)
    assert problem.spaces["out"].strides == {"X": (30, 1), "Y": (6, 1)}
    assert problem.grid == (24, 1, 1)


def test_keepdim_output_is_indexed_by_axis():
    problem = make_problem(reduction(bs.desc((4, 5)), bs.desc((4, 1)), axes=(1,)), bs.PROPS)
    assert problem.spaces["out"].strides == {"X": (5,), "Y": (1,)}


def test_full_reduction_keeps_nothing():
    problem = make_problem(reduction(bs.desc((4, 5)), bs.desc(()), axes=(0, 1)), bs.PROPS)
    assert problem.spaces["red"].shape == (20,)
    assert problem.spaces["out"].shape == ()
    assert problem.spaces["out"].size == 1


def test_an_operand_of_no_fitting_rank_is_named():
    with pytest.raises(
        InvalidArgumentError, match=r"argument 'Y'.*expected rank 3 or 2, got rank 1"
    ):
        make_problem(reduction(bs.desc((4, 5, 6)), bs.desc((24,)), axes=(1,)), bs.PROPS)


def test_an_operand_of_wrong_extent_is_named():
    with pytest.raises(InvalidArgumentError, match=r"argument 'Y'.*expected extent 1 or 6"):
        make_problem(reduction(bs.desc((4, 5, 6)), bs.desc((4, 7)), axes=(1,)), bs.PROPS)


@pytest.mark.parametrize(
    ("x", "y", "width"),
    [
        (bs.desc((1024,)), bs.desc((1024,)), 4),
        (bs.desc((1022,)), bs.desc((1022,)), 1),
        (bs.desc((1024,), "f16"), bs.desc((1024,)), 4),
        (bs.desc((1024,), "f16"), bs.desc((1024,), "f16"), 8),
        (bs.desc((8, 8), strides=(9, 1)), bs.desc((8, 8)), 1),
        (bs.desc((8, 8), strides=(12, 1)), bs.desc((8, 8)), 4),
        (bs.desc((8, 8), strides=(1, 8)), bs.desc((8, 8)), 4),
        (bs.desc((8,), strides=(-1,)), bs.desc((8,)), 4),
        (bs.desc((8,), strides=(2,)), bs.desc((8,), strides=(2,)), 1),
    ],
)
def test_vectors_need_dense_rows_and_multiples(x, y, width):
    problem = make_problem(elementwise(x, y), bs.PROPS)
    assert space_vector(problem.spaces["it"], problem.bound, True) == width
    assert space_vector(problem.spaces["it"], problem.bound, False) == 1


def test_index_width_follows_the_address_span_not_the_count():
    small = elementwise(bs.desc((745, 745), strides=(256, 256)), bs.desc((745, 745)))
    assert make_problem(small, bs.PROPS).index_bits == 32
    x = bs.desc((4, 4), strides=(2**28, 1))
    assert make_problem(elementwise(x, bs.desc((4, 4))), bs.PROPS).index_bits == 64
    back = bs.desc((4, 4), strides=(-(2**28), 1))
    assert make_problem(elementwise(back, bs.desc((4, 4))), bs.PROPS).index_bits == 64


def test_index_width_leaves_room_for_rounding_up():
    n = 2**31 - 1000
    bytes_ = elementwise(bs.desc((n,), "u8"), bs.desc((n,), "u8"))
    assert make_problem(bytes_, bs.PROPS).index_bits == 64


def test_arguments_are_pointers_then_extents_then_runtime_attributes():
    bound = elementwise(bs.desc((3, 4), strides=(8, 2), offset=5), bs.desc((3, 4)))
    static = make_problem(bound, bs.PROPS)
    assert [(a.kind, a.name, a.format) for a in static.args] == [
        ("pointer", "X", "Q"), ("pointer", "Y", "Q"), ("scalar", "alpha", "f"),
    ]  # fmt: skip
    assert [a.offset for a in static.args] == [20, 0, 0]
    dynamic = make_problem(bound, bs.PROPS, static=False)
    assert [(a.name, a.format, a.value) for a in dynamic.args[2:]] == [
        ("S_0", "i", 3), ("S_1", "i", 4), ("X_stride0", "i", 8), ("X_stride1", "i", 2),
        ("Y_stride0", "i", 4), ("it_extent0", "i", 12), ("it_X_stride0", "i", 2),
        ("alpha", "f", 2.0),
    ]  # fmt: skip


def test_scalars_widen_with_the_buffers():
    wide = elementwise(bs.desc((4,), "f64"), bs.desc((4,), "f64"))
    assert make_problem(wide, bs.PROPS).args[-1].format == "d"
    far = elementwise(bs.desc((4, 4), strides=(2**28, 1)), bs.desc((4, 4)))
    assert {a.format for a in make_problem(far, bs.PROPS, static=False).args[2:-1]} == {"q"}
    attrs = [AttrSpec("n", "int", 1, runtime=True), AttrSpec("on", "bool", True, runtime=True)]
    ints = bs.kernel("", attrs=attrs)
    x = bs.desc((4,))
    formats = [a.format for a in make_problem(bs.bound(ints, [x, x]), bs.PROPS).args[2:]]
    assert formats == ["i", "?"]
    big = make_problem(bs.bound(ints, [x, x], n=2**40), bs.PROPS)
    assert big.args[2].format == "q"


def test_an_absent_optional_buffer_has_no_argument():
    bias = BufferSpec("B", "input", "T", ("*S",), optional=True)
    spec = bs.kernel("", inputs=[BufferSpec("X", "input", "T", S), bias],
                     iterate={"it": (["X", "B", "Y"], None)})  # fmt: skip
    problem = make_problem(bs.bound(spec, [bs.desc((4,)), None, bs.desc((4,))]), bs.PROPS)
    assert [(a.name, a.value) for a in problem.args if a.kind == "pointer"] == [("X", 0), ("Y", 2)]
    assert list(problem.spaces["it"].strides) == ["X", "Y"]


def test_geometry_is_padded_and_checked():
    x = bs.desc((1000,))
    problem = make_problem(elementwise(x, x, grid=["ceildiv(it_size, 256)", "2"]), bs.PROPS)
    assert problem.grid == (4, 2, 1)
    assert problem.block == (256, 1, 1)
    with pytest.raises(
        InvalidArgumentError, match=r"launch grid is not a whole number.*it_size / 3"
    ):
        make_problem(elementwise(x, x, grid=["it_size / 3"]), bs.PROPS)


def test_tunables_prefer_and_override():
    x = bs.desc((1000,))
    parts = {"tunables": {"BM": (64, 128), "BN": (8, 16)},
             "prefer": {"BM": "128 if it_size > 500 and kind == 'cpu' else 64"}}  # fmt: skip
    assert make_problem(elementwise(x, x, **parts), bs.PROPS).tunables == {"BM": 128, "BN": 8}
    chosen = make_problem(elementwise(x, x, **parts), bs.PROPS, tunables={"BM": 64})
    assert chosen.tunables == {"BM": 64, "BN": 8}
    with pytest.raises(InvalidArgumentError, match=r"argument 'BM'.*one of \[64, 128\], got 3"):
        make_problem(elementwise(x, x, **parts), bs.PROPS, tunables={"BM": 3})
    with pytest.raises(InvalidArgumentError, match=r"unknown tunable.*expected BM, BN"):
        make_problem(elementwise(x, x, **parts), bs.PROPS, tunables={"BK": 3})


def test_repack_keeps_the_source_and_changes_values():
    first = make_problem(elementwise(bs.desc((8, 64)), bs.desc((8, 64))), bs.PROPS, static=False)
    other = repack(first, elementwise(bs.desc((16, 128)), bs.desc((16, 128))))
    assert facts(other) == facts(first)
    assert other.grid == (8, 1, 1)
    assert [a.value for a in other.args if a.name == "it_extent0"] == [2048]


@pytest.mark.parametrize(
    "x",
    [
        bs.desc((16, 128), strides=(1, 16)),  # other stride classes
        bs.desc((16, 126)),  # no 128-bit rows
        bs.desc((2048,)),  # other rank
        bs.desc((16, 128), "f16"),
        bs.desc((16, 128), strides=(2**27, 1)),  # 64-bit offsets
    ],
)
def test_other_classes_are_other_facts(x):
    first = make_problem(elementwise(bs.desc((8, 64)), bs.desc((8, 64))), bs.PROPS, static=False)
    other = repack(first, elementwise(x, bs.desc(x.shape, x.dtype.name)))
    assert facts(other) != facts(first)


def test_facts_ignore_offsets_and_size_one_strides():
    a = make_problem(elementwise(bs.desc((1, 8), strides=(8, 1)), bs.desc((1, 8))), bs.PROPS)
    x = bs.desc((1, 8), strides=(77, 1), offset=4)
    b = make_problem(elementwise(x, bs.desc((1, 8))), bs.PROPS)
    assert facts(a) == facts(b)


def test_alignment_is_a_fact():
    x = bs.desc((64,))
    problem = make_problem(elementwise(x, x), bs.PROPS)
    assert with_alignment(problem, True) is problem
    assert facts(with_alignment(problem, False)) != facts(problem)


def test_lets_are_arguments_only_where_they_follow_extents():
    lets = {"ROWS": "prod(S)", "R": "rank(X)", "TWICE": "ROWS * 2", "HEAD": "S[0]"}
    problem = make_problem(elementwise(bs.desc((3, 4)), bs.desc((3, 4)), lets=lets), bs.PROPS,
                           static=False)  # fmt: skip
    given = {a.name: a.value for a in problem.args if a.kind == "scalar"}
    assert given["ROWS"] == 12
    assert given["TWICE"] == 24
    assert given["HEAD"] == 3
    assert "R" not in given

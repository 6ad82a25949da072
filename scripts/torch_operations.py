"""Random calls of library kernels with the values that PyTorch gives, for `compare_torch.py`.

Each function of `OPERATIONS` draws one configuration and yields its calls. PyTorch computes in f64
from the same (rounded) inputs, so that what differs is the kernel's error. Shapes are drawn from
short lists: each new one compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import torch
import torch.nn.functional as F

Array: TypeAlias = "np.ndarray[Any, Any]"
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Call:
    """A launch: inputs and outputs in declared order, and what outputs are to hold."""

    kernel: str
    inputs: Sequence[Array | None]
    outputs: Mapping[str, Array | None]  # to write into; None is not asked for
    wanted: Mapping[str, torch.Tensor]
    attrs: Mapping[str, Any] = field(default_factory=dict)


class Draw:
    """Random choices of one configuration."""

    def __init__(self, rng: np.random.Generator, dtypes: Sequence[str]) -> None:
        self.rng = rng
        self.dtype = self.pick(*dtypes)

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return options[self.rng.integers(len(options))]

    def chance(self, p: float = 0.5) -> bool:
        """Whether something happens that does so with probability ``p``."""
        return bool(self.rng.random() < p)

    def normal(self, *shape: int) -> Array:
        """Normal values in the dtype of the configuration."""
        values = np.asarray(self.rng.standard_normal(shape))
        return values.astype(NUMPY[self.dtype])

    def maybe(self, *shape: int) -> Array | None:
        """An optional input."""
        return self.normal(*shape) if self.chance(0.7) else None

    def image(self, *shape: int) -> Array:
        """An image [N, C, H, W], with channels innermost in memory in half of the cases."""
        if self.chance():
            return self.normal(*shape)
        n, c, h, w = shape
        return self.normal(n, h, w, c).transpose(0, 3, 1, 2)


def leaf(array: Array | None) -> torch.Tensor | None:
    """An input in f64 whose gradient can be asked for."""
    if array is None:
        return None
    return torch.from_numpy(np.array(array, np.float64)).requires_grad_()


def empty(wanted: Mapping[str, torch.Tensor | None], dtype: str) -> dict[str, Array | None]:
    """Arrays for outputs; NaN, so that what is not written is seen."""
    return {
        name: None if t is None else np.full(tuple(t.shape), np.nan, NUMPY[dtype])
        for name, t in wanted.items()
    }


def call(
    kernel: str, inputs: Sequence[Array | None], wanted: Mapping[str, torch.Tensor | None],
    dtype: str, **attrs: Any,
) -> Call:  # fmt: skip
    """A call whose outputs have one dtype."""
    known = {name: t.detach() for name, t in wanted.items() if t is not None}
    return Call(kernel, inputs, empty(wanted, dtype), known, attrs)


def gradients(
    outputs: Sequence[torch.Tensor],
    cotangents: Sequence[Array],
    *,
    keep: bool = False,
    **leaves: torch.Tensor | None,
) -> dict[str, torch.Tensor | None]:
    """Gradients by name, None for an input that is absent; ``keep`` the graph for another time."""
    there = {name: t for name, t in leaves.items() if t is not None}
    found = torch.autograd.grad(
        list(outputs), list(there.values()),
        [torch.from_numpy(np.array(g, np.float64)) for g in cotangents], retain_graph=keep,
    )  # fmt: skip
    by_name = dict(zip(there, found, strict=True))
    return {name: by_name.get(name) for name in leaves}


def rounded(t: torch.Tensor, dtype: str) -> Array:
    """What a forward kernel would have given to its backward."""
    array: Array = t.detach().numpy().astype(NUMPY[dtype])
    return array


ACTIVATIONS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "none": lambda z, _: z,
    "relu": lambda z, _: F.relu(z),
    "leaky_relu": lambda z, slope: F.leaky_relu(z, slope),
    "elu": lambda z, slope: F.elu(z, slope),
    "softplus": lambda z, _: torch.log1p(torch.exp(z)),
    "sigmoid": lambda z, _: torch.sigmoid(z),
    "silu": lambda z, _: F.silu(z),
    "tanh": lambda z, _: torch.tanh(z),
    "gelu": lambda z, _: F.gelu(z, approximate="tanh"),
    "gelu_erf": lambda z, _: F.gelu(z),
}


def conv2d(draw: Draw) -> Iterator[Call]:
    groups, dtype = draw.pick(1, 1, 2, 4), draw.dtype
    kernel = draw.pick((3, 3), (1, 1), (2, 3))
    x = draw.image(draw.pick(1, 2), 4 * groups, draw.pick(6, 9), draw.pick(8, 19))
    w = draw.normal(draw.pick(4, 12) * groups, 4, *kernel)
    bias = draw.maybe(w.shape[0])
    stride, pad, dilation = (draw.pick([1], o) for o in ([2], [1, 0], [2, 1]))
    act, slope = draw.pick("none", *ACTIVATIONS), draw.pick(0.01, 0.3)
    attrs: dict[str, Any] = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups,
                             "act": act, "leaky_slope": slope}  # fmt: skip
    tx, tw, tb = leaf(x), leaf(w), leaf(bias)
    z = F.conv2d(tx, tw, tb, stride, pad, dilation, groups)
    y = ACTIVATIONS[act](z, slope)
    yield call("conv2d", [x, w, bias], {"Y": y, "Z": z}, dtype, **attrs)
    if dtype in ("f16", "bf16") and act != "none":
        return  # derivatives at a rounded Z are not those at the exact one
    gy = draw.normal(*y.shape)
    wanted = gradients([y], [gy], gX=tx, gW=tw, gbias=tb)
    saved = None if act == "none" else rounded(z, dtype)
    yield call("conv2d_bwd", [gy, x, w, saved], wanted, dtype, **attrs)


def pool2d(draw: Draw) -> Iterator[Call]:
    mode, size = draw.pick("max", "avg"), draw.pick([2, 2], [3, 3], [3, 2])
    stride, pad = draw.pick([1, 1], [2, 2], [2, 1]), [k // 2 * draw.pick(0, 1) for k in size]
    dilation = draw.pick([1, 1], [1, 2]) if mode == "max" else [1, 1]
    attrs: dict[str, Any] = {
        "mode": mode, "kernel_size": size, "stride": stride, "pad": pad, "dilation": dilation,
        "ceil_mode": draw.chance(), "count_include_pad": draw.chance(),
    }  # fmt: skip
    x = draw.image(draw.pick(1, 2), draw.pick(3, 8), draw.pick(7, 10), draw.pick(8, 17))
    tx = leaf(x)
    indices = None
    if mode == "max":
        y, indices = F.max_pool2d(
            tx, size, stride, pad, dilation, attrs["ceil_mode"], return_indices=True
        )
    else:
        y = F.avg_pool2d(tx, size, stride, pad, attrs["ceil_mode"], attrs["count_include_pad"])
    forward = call("pool2d", [x], {"Y": y, "indices": None}, draw.dtype, **attrs)
    if indices is not None:
        numbers = np.full(y.shape, -7, np.int64)
        forward = Call("pool2d", [x], {"Y": forward.outputs["Y"], "indices": numbers},
                       {**forward.wanted, "indices": indices}, attrs)  # fmt: skip
    yield forward
    gy = draw.normal(*y.shape)
    given = indices.numpy() if indices is not None and draw.chance() else None
    wanted = gradients([y], [gy], gX=tx)
    yield call("pool2d_bwd", [gy, x, given], wanted, draw.dtype, **attrs)


def batchnorm(draw: Draw) -> Iterator[Call]:
    n, c = draw.pick(2, 3), draw.pick(5, 16)
    x = (
        draw.normal(n, c)
        if draw.chance(0.2)
        else draw.image(n, c, draw.pick(4, 7), draw.pick(5, 8))
    )
    own = Draw(draw.rng, [draw.dtype if draw.dtype in ("f32", "f64") else "f32"])
    gamma, beta = own.maybe(c), own.maybe(c)
    mean, var = own.normal(c), np.abs(own.normal(c)) + NUMPY[own.dtype](0.1)
    training = draw.chance(0.7)
    attrs = {"eps": draw.pick(1e-5, 0.1), "momentum": draw.pick(0.1, 0.4), "training": training}
    tx, tg, tb = leaf(x), leaf(gamma), leaf(beta)
    running = [torch.from_numpy(v.astype(np.float64)) for v in (mean, var)]
    y, saved, rate = torch.native_batch_norm(
        tx, tg, tb, *running, training, attrs["momentum"], attrs["eps"]
    )
    names = ("running_mean", "running_var", "save_mean", "save_invstd")
    moments = dict(zip(names, (*running, *((saved, rate) if training else ())), strict=False))
    outputs = empty({"Y": y}, draw.dtype) | empty(dict.fromkeys(names), own.dtype)
    outputs |= empty(moments, own.dtype) | {"running_mean": mean.copy(), "running_var": var.copy()}
    known = {"Y": y.detach(), **{name: t.detach() for name, t in moments.items()}}
    yield Call("batchnorm", [x, gamma, beta], outputs, known, attrs)
    gy = draw.normal(*y.shape)
    wanted = gradients([y], [gy], gX=tx, ggamma=tg, gbeta=tb)
    kept = [rounded(t, own.dtype) for t in (saved, rate)] if training else [None, None]
    yield Call(
        "batchnorm_bwd", [gy, x, gamma, mean, var, *kept],
        empty({"gX": wanted["gX"]}, draw.dtype)
        | empty({name: wanted[name] for name in ("ggamma", "gbeta")}, own.dtype),
        {name: t for name, t in wanted.items() if t is not None}, attrs,
    )  # fmt: skip


def layernorm(draw: Draw) -> Iterator[Call]:
    rows, n = draw.pick((4,), (2, 3), (33,)), draw.pick(7, 33, 64)
    x, eps = draw.normal(*rows, n), draw.pick(1e-5, 0.1)
    gamma = draw.maybe(n)
    beta = draw.maybe(n) if gamma is not None else None
    tx, tg, tb = leaf(x), leaf(gamma), leaf(beta)
    y = F.layer_norm(tx, (n,), tg, tb, eps)
    yield call("layernorm", [x, gamma, beta], {"Y": y}, draw.dtype, eps=eps)
    gy = draw.normal(*y.shape)
    wanted = gradients([y], [gy], gX=tx, ggamma=tg, gbeta=tb)
    yield call("layernorm_bwd", [gy, x, gamma], wanted, draw.dtype, eps=eps)


def _mask(draw: Draw, m: int, n: int) -> tuple[Array | None, torch.Tensor | None]:
    """A mask, and what PyTorch adds to scores for it."""
    kind, shape = draw.pick("none", "f32", "bool", "i32"), (1, 1, draw.pick(1, m), n)
    if kind == "none":
        return None, None
    if kind == "f32":
        added = draw.rng.standard_normal(shape).astype(np.float32)
        return added, torch.from_numpy(added.astype(np.float64))
    seen = draw.rng.random(shape) < 0.7
    bias = torch.from_numpy(np.where(seen, 0.0, -np.inf))
    return (seen if kind == "bool" else (~seen).astype(np.int32)), bias


def sdpa(draw: Draw) -> Iterator[Call]:
    batch, m, n = (draw.pick(1, 2), 2), draw.pick(1, 9, 33), draw.pick(8, 33)
    d, e = draw.pick(8, 20), draw.pick(8, 16)
    q, k, v = draw.normal(*batch, m, d), draw.normal(*batch, n, d), draw.normal(*batch, n, e)
    mask, bias = _mask(draw, m, n)
    causal, scale = draw.chance(), draw.pick(0.0, 0.3)
    if causal:
        triangle = torch.where(torch.ones(m, n).tril() > 0, 0.0, -torch.inf).double()
        bias = triangle if bias is None else bias + triangle
    tq, tk, tv = leaf(q), leaf(k), leaf(v)
    y = F.scaled_dot_product_attention(tq, tk, tv, bias, scale=scale or None)
    attrs = {"scale": scale, "causal": causal}
    yield call("sdpa", [q, k, v, mask], {"Y": y, "lse": None}, draw.dtype, **attrs)
    gy = draw.normal(*y.shape)
    wanted = gradients([y], [gy], gQ=tq, gK=tk, gV=tv)
    yield call("sdpa_bwd", [q, k, v, mask, None, None, gy], wanted, draw.dtype, **attrs)


def cross_entropy(draw: Draw) -> Iterator[Call]:
    n, rows = draw.pick(5, 33, 70), draw.pick((4,), (3, 5), (40,))
    logits, reduction = draw.chance(0.7), draw.pick("none", "mean", "sum")
    ignore, smoothing = draw.pick(-100, 2), draw.pick(0.0, 0.2) if logits else 0.0
    x = draw.normal(*rows, n)
    if not logits:
        x = draw.rng.uniform(0.05, 1.0, x.shape).astype(x.dtype)
    target = draw.rng.integers(0, n, rows).astype(draw.pick(np.int32, np.int64))
    target.flat[0] = 1  # a row that counts
    tx = leaf(x)
    assert tx is not None
    flat, classes = tx.reshape(-1, n), torch.from_numpy(target.astype(np.int64).ravel())
    if logits:
        loss = F.cross_entropy(
            flat, classes, reduction=reduction, ignore_index=ignore, label_smoothing=smoothing
        )
    else:
        loss = F.nll_loss(torch.log(flat + 1e-9), classes, reduction=reduction, ignore_index=ignore)
    loss = loss.reshape(rows if reduction == "none" else ())
    attrs = {"from_logits": logits, "reduction": reduction, "ignore_index": ignore,
             "label_smoothing": smoothing}  # fmt: skip
    ones = np.ones(tuple(loss.shape))
    outputs = {"loss": loss, **gradients([loss], [ones], keep=True, gX=tx)}
    yield call("cross_entropy", [x, target], outputs, draw.dtype, **attrs)
    gloss = draw.normal(*loss.shape)
    wanted = gradients([loss], [gloss], gX=tx)
    yield call("cross_entropy_bwd", [gloss, x, target], wanted, draw.dtype, **attrs)


@dataclass(frozen=True)
class Layer:
    """Sizes and arrays that both recurrent layers have; weights are as the kernels have them."""

    x: Array
    wx: Array
    wh: Array
    bias: Array | None
    bias_h: Array | None
    h0: Array | None

    @classmethod
    def of(cls, draw: Draw, gates: int) -> Layer:
        """A random layer whose weights have that many gates."""
        n, steps, i, h = draw.pick(1, 4), draw.pick(1, 5, 9), draw.pick(3, 16), draw.pick(5, 8, 37)
        wh = (draw.normal(h, gates * h) / np.sqrt(h)).astype(NUMPY[draw.dtype])
        return cls(
            draw.normal(n, steps, i), draw.normal(i, gates * h), wh, draw.maybe(gates * h),
            draw.maybe(gates * h), draw.maybe(n, h),
        )  # fmt: skip

    @property
    def state(self) -> tuple[int, int]:
        """The shape [N, H] of a state."""
        return self.x.shape[0], self.wh.shape[0]

    def leaves(self) -> dict[str, torch.Tensor | None]:
        """The arrays in f64, by the names of their gradients."""
        names = {"gX": self.x, "gWx": self.wx, "gWh": self.wh, "gbias": self.bias,
                 "gbias_h": self.bias_h, "gh0": self.h0}  # fmt: skip
        return {name: leaf(array) for name, array in names.items()}

    def parameters(self, leaves: Mapping[str, Any]) -> list[torch.Tensor]:
        """What PyTorch's functions take: transposed weights, and both biases."""
        zeros = torch.zeros(self.wx.shape[1], dtype=torch.float64)
        biases = (zeros if leaves[name] is None else leaves[name] for name in ("gbias", "gbias_h"))
        return [leaves["gWx"].T, leaves["gWh"].T, *biases]

    def first(self, given: torch.Tensor | None) -> torch.Tensor:
        """A first state for PyTorch, [1, N, H]."""
        zeros = torch.zeros(self.state, dtype=torch.float64)
        return (zeros if given is None else given)[None]


# has biases, layers, dropout, training, two directions, sequences first
_ONE_LAYER = (True, 1, 0.0, False, False, True)


def gru(draw: Draw) -> Iterator[Call]:
    layer = Layer.of(draw, 3)
    leaves = layer.leaves()
    y, hn = torch.gru(leaves["gX"], layer.first(leaves["gh0"]), layer.parameters(leaves),
                      *_ONE_LAYER)  # fmt: skip
    given = [layer.x, layer.wx, layer.wh, layer.bias, layer.bias_h, layer.h0]
    yield call("gru", given, {"Y": y, "hn": hn[0]}, draw.dtype)
    gy, ghn = draw.normal(*y.shape), draw.normal(*layer.state)
    wanted = gradients([y, hn[0]], [gy, ghn], **leaves)
    yield call("gru_bwd", [*given, rounded(y, draw.dtype), gy, ghn], wanted, draw.dtype)


def lstm(draw: Draw) -> Iterator[Call]:
    layer = replace(Layer.of(draw, 4), bias_h=None)
    leaves = layer.leaves()
    c0 = draw.maybe(*layer.state)
    tc = leaf(c0)
    first = (layer.first(leaves["gh0"]), layer.first(tc))
    y, hn, cn = torch.lstm(leaves["gX"], first, layer.parameters(leaves), *_ONE_LAYER)
    given = [layer.x, layer.wx, layer.wh, layer.bias, layer.h0, c0]
    yield call("lstm", given, {"Y": y, "hn": hn[0], "cn": cn[0]}, draw.dtype)
    cotangents = [draw.normal(*y.shape), draw.normal(*layer.state), draw.normal(*layer.state)]
    del leaves["gbias_h"]
    wanted = gradients([y, hn[0], cn[0]], cotangents, **leaves, gc0=tc)
    yield call("lstm_bwd", [*given, rounded(y, draw.dtype), *cotangents], wanted, draw.dtype)


def _lamb(
    p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor, step: int, lr: float,
    beta1: float, beta2: float, eps: float, weight_decay: float,
) -> None:  # fmt: skip
    """One step in place: You et al. 2019, arXiv 1904.00962, algorithm 2 with phi the identity."""
    m.mul_(beta1).add_(g, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    r = (m / (1 - beta1**step)) / ((v / (1 - beta2**step)).sqrt() + eps) + weight_decay * p
    p.sub_(r, alpha=lr * float(p.norm() / r.norm()))


def _adamw(
    p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor, step: int, lr: float,
    beta1: float, beta2: float, eps: float, weight_decay: float,
) -> None:  # fmt: skip
    """One step in place, by ``torch.optim.AdamW`` with this state."""
    held = torch.nn.Parameter(p)
    held.grad = g
    optimiser = torch.optim.AdamW([held], lr, (beta1, beta2), eps, weight_decay)
    optimiser.state[held] = {"step": torch.tensor(step - 1.0), "exp_avg": m, "exp_avg_sq": v}
    optimiser.step()


def _optimiser(name: str, step_of: Callable[..., None], draw: Draw) -> Iterator[Call]:
    """Steps over a list of tensors, in place; low precision makes one, as each rounds anew."""
    shapes = [draw.pick((300,), (33, 7), (5, 3, 2)) for _ in range(draw.pick(1, 2))]
    params = [draw.normal(*shape) for shape in shapes]
    states = [[np.zeros(shape, np.float32) for shape in shapes] for _ in range(2)]
    # a parameter shares the memory of its tensor, which the step changes in place
    exact = [[torch.from_numpy(a.astype(np.float64)) for a in part] for part in (params, *states)]
    attrs = {"lr": draw.pick(1e-3, 0.1), "beta1": draw.pick(0.9, 0.5), "beta2": 0.99,
             "eps": draw.pick(1e-8, 1e-6), "weight_decay": draw.pick(0.0, 0.1)}  # fmt: skip
    for step in range(1, 1 + (3 if draw.dtype == "f32" else 1)):
        grads = [draw.normal(*shape) for shape in shapes]
        for grad, p, m, v in zip(grads, *exact, strict=True):
            step_of(p, torch.from_numpy(grad.astype(np.float64)), m, v, step, **attrs)
        names = [f"{part}{i}" for part in "PMV" for i in range(len(shapes))]
        outputs = dict(zip(names, [*params, *states[0], *states[1]], strict=True))
        wanted = dict(zip(names, [t.clone() for part in exact for t in part], strict=True))
        yield Call(name, grads, outputs, wanted, {**attrs, "step": step})


def adamw(draw: Draw) -> Iterator[Call]:
    return _optimiser("adamw", _adamw, draw)


def lamb(draw: Draw) -> Iterator[Call]:
    return _optimiser("lamb", _lamb, draw)


_ALL, _STATES, _SHORT = ("f32", "f64", "f16", "bf16"), ("f32", "f64"), ("f32", "f16", "bf16")

# operation -> what draws its calls, and dtypes; recurrent gradients are functions of the states
# that were given, which low precision rounds too far from those of the exact layer
OPERATIONS: Mapping[str, tuple[Callable[[Draw], Iterator[Call]], Sequence[str]]] = {
    "conv2d": (conv2d, _ALL),
    "pool2d": (pool2d, _ALL),
    "batchnorm": (batchnorm, _ALL),
    "layernorm": (layernorm, _ALL),
    "sdpa": (sdpa, _SHORT),
    "cross_entropy": (cross_entropy, _ALL),
    "gru": (gru, _STATES),
    "lstm": (lstm, _STATES),
    "adamw": (adamw, _SHORT),
    "lamb": (lamb, _SHORT),
}

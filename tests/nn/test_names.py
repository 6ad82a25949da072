"""What modules hold, by the names and in the forms that PyTorch's users know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

F32 = np.float32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2, seed=n) for n in range(2)])
        self.norm = nn.BatchNorm(2)
        self.twice = [self.norm]
        self.register_buffer("scale", [2.0])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) * self.scale


def test_names_come_in_pairs_and_each_module_once() -> None:
    block = Block()
    assert [name for name, _ in block.named_parameters()] == [
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
        "norm.weight", "norm.bias",
    ]  # fmt: skip
    assert next(block.parameters()) is block.layers[0].weight
    assert [name for name, _ in block.named_buffers()] == [
        "scale", "norm.running_mean", "norm.running_var",
    ]  # fmt: skip
    assert next(block.buffers()) is block.scale
    assert dict(block.named_modules()).keys() == {"", "layers", "layers.0", "layers.1", "norm"}
    assert [type(each) for each in block.modules()] == [
        Block, nn.ModuleList, nn.Linear, nn.Linear, nn.BatchNorm
    ]  # fmt: skip
    assert [name for name, _ in block.named_children()] == ["layers", "norm", "twice.0"]
    assert all(isinstance(each, nn.Module) for each in block.children())
    seen: list[Any] = []
    assert block.apply(seen.append) is block
    assert seen[-1] is block
    assert len(seen) == 5
    assert not any(each.training for each in block.eval().modules())
    assert isinstance(block.scale, ge2rt.Tensor)
    assert "twice.0.weight" in block.state_dict()  # as it is found, as PyTorch has it


def test_sequences_of_modules() -> None:
    model = nn.Sequential(nn.Linear(2, 3, seed=0), nn.ReLU(), nn.Linear(3, 2, seed=1))
    assert len(model) == 3
    assert model[-1] is list(model)[2]
    x = ge2rt.tensor([[1.0, -2.0]])
    half = model[:2]
    np.testing.assert_array_equal(
        half(x).detach().numpy(), np.maximum(model[0](x).detach().numpy(), 0)
    )
    layers = nn.ModuleList()
    layers.append(model[0]).extend([model[1]])
    assert (len(layers), layers[0], len(layers[1:])) == (2, model[0], 1)
    with pytest.raises(InvalidTypeError, match="is no module"):
        layers.append(print)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"Sequential\(a, b\)"):
        nn.Sequential([model[0]])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["scale", "forward", "a.b"])
def test_a_buffer_takes_no_name_that_is_in_use(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no buffer can have the name"):
        Block().register_buffer(name, ge2rt.zeros(1))


def test_recurrent_layers_run_after_eval() -> None:
    x = ge2rt.ones(1, 2, 3)
    assert nn.GRU(3, 2, seed=0).eval()(x)[0].shape == (1, 2, 2)


def test_activations_and_losses_are_those_of_the_formulas() -> None:
    x = np.linspace(-3, 3, 12, dtype=F32).reshape(3, 4)
    e = np.exp(x)
    from math import erf

    want = {
        "relu": np.maximum(x, 0), "sigmoid": e / (1 + e), "silu": x * e / (1 + e),
        "tanh": np.tanh(x), "softmax": e / e.sum(-1, keepdims=True),
        "log_softmax": x - np.log(e.sum(-1, keepdims=True)),
        "gelu": x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2,
        "leaky_relu": np.where(x > 0, x, 0.01 * x),
    }  # fmt: skip
    given = ge2rt.tensor(x)
    for name, values in want.items():
        np.testing.assert_allclose(getattr(F, name)(given).numpy(), values, atol=1e-6)
    for kind in (nn.ReLU, nn.Sigmoid, nn.SiLU, nn.Tanh, nn.GELU, nn.LeakyReLU, nn.Softmax):
        name = {"LeakyReLU": "leaky_relu"}.get(kind.__name__, kind.__name__.lower())
        np.testing.assert_allclose(kind()(given).numpy(), want[name], atol=1e-6)
    tanh = nn.GELU("tanh")(given).numpy()
    np.testing.assert_array_equal(tanh, nn.Activation("gelu")(given).numpy())
    assert nn.Identity()(given) is given
    labels, other = ge2rt.tensor([0, 3, 1]), ge2rt.tensor(x * 0 + 0.5)
    for loss, value in (
        (nn.CrossEntropyLoss(), -want["log_softmax"][[0, 1, 2], [0, 3, 1]].mean()),
        (nn.MSELoss("sum"), ((x - 0.5) ** 2).sum()), (nn.L1Loss(), np.abs(x - 0.5).mean()),
        (nn.BCEWithLogitsLoss(), (np.log1p(e) - 0.5 * x).mean()),
    ):  # fmt: skip
        target = labels if isinstance(loss, nn.CrossEntropyLoss) else other
        np.testing.assert_allclose(loss(given, target).item(), value, rtol=1e-5)
    with pytest.raises(InvalidArgumentError, match="unknown reduction 'avg'"):
        nn.MSELoss("avg")


def test_the_namespace_of_the_functions_has_functions_alone() -> None:
    assert dir(F) == sorted(F.__all__)
    assert all(callable(getattr(F, name)) for name in F.__all__)


def test_lists_are_f32_and_arrays_keep_their_dtype() -> None:
    model = nn.Linear(2, 1, seed=0)
    assert model([[1.0, 2.0]]).dtype == "f32"
    assert model([[1, 2]]).dtype != "f32"  # integers are i64, which f32 does not hold
    assert model(np.ones((1, 2))).dtype == "f64"
    assert nn.Embedding(4, 2)([1, 3]).shape == (2, 2)


REFUSED: dict[str, tuple[Any, str]] = {
    "extent": (lambda: nn.Linear(-1, 3), r"Linear: inputs is too small.*at least 1, got -1"),
    "no integer": (lambda: nn.Linear(3, 2.5), r"Linear: outputs is no integer.*2\.5"),
    "heads": (lambda: nn.MultiHeadAttention(16, 3), "heads does not divide width; got heads=3"),
    "share": (lambda: nn.Dropout(1.5), r"Dropout: the share.*outside of \[0, 1\).*1\.5"),
    "groups": (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups does not divide inputs"),
    "stride": (lambda: nn.Conv2d(3, 4, 3, stride=0), "stride is too small"),
    "channels": (
        lambda: nn.Conv2d(1, 4, 3)(ge2rt.ones(2, 3, 6, 6)),
        r"conv2d: another number of channels.*expected \[N, 1, H, W\], got \(2, 3, 6, 6\)",
    ),
    "layout": (
        lambda: nn.Conv2d(3, 4, 3)(ge2rt.ones(2, 6, 6, 3)), r"channels come first: x\.permute",
    ),
    "rank": (lambda: nn.Conv2d(3, 4, 3)(ge2rt.ones(3, 6, 6)), r"four axes \[N, C, H, W\]"),
    "window": (
        lambda: nn.Conv2d(3, 4, 9)(ge2rt.ones(1, 3, 6, 6)), "the window is larger than the image",
    ),
    "pool": (lambda: F.max_pool2d(ge2rt.ones(3, 6, 6), 2), "pooling: not a batch of images"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_told_with_the_line(name: str) -> None:
    call, match = REFUSED[name]
    with pytest.raises(InvalidArgumentError, match=rf"test_names\.py:\d+: .*{match}"):
        call()

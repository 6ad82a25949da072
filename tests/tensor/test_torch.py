"""Kernels as PyTorch operators, against PyTorch's own."""

from __future__ import annotations

import numpy as np
import pytest

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError

torch = pytest.importorskip("torch")
nn = torch.nn.functional


@pytest.fixture(scope="module")
def ours():
    import ge2rt.torch

    return ge2rt.torch


def arrays(*shapes, dtype=None):
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=s), dtype=dtype or torch.float32) for s in shapes]


def test_softmax_and_its_gradient(ours) -> None:
    (x, g) = arrays((33, 70), (33, 70))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = ours.op("SOFTMAX")(a)
    wanted = nn.softmax(b, -1)
    torch.testing.assert_close(y, wanted)
    y.backward(g)
    wanted.backward(g)
    torch.testing.assert_close(a.grad, b.grad)


def test_convolution_with_attributes_and_an_absent_bias(ours) -> None:
    x, w, bias = arrays((2, 4, 9, 9), (6, 4, 3, 3), (6,))
    conv = ours.op("CONV2D")
    for extra in (None, bias):
        mine = [t.clone().requires_grad_() if t is not None else None for t in (x, w, extra)]
        theirs = [t.clone().requires_grad_() if t is not None else None for t in (x, w, extra)]
        y = conv(*mine, stride=[2], pad=[1])
        wanted = nn.conv2d(*theirs, stride=2, padding=1)
        torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)
        (y * y).sum().backward()
        (wanted * wanted).sum().backward()
        for one, other in zip(mine, theirs, strict=True):
            if one is not None:
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3)


def test_several_outputs(ours) -> None:
    x, wx, wh = arrays((3, 5, 4), (4, 8), (2, 8))
    lstm = ours.op("LSTM", optional=("hn", "cn"))
    mine = [t.clone().requires_grad_() for t in (x, wx, wh)]
    y, h, c = lstm(*mine)
    net = torch.nn.LSTM(4, 2, bias=False, batch_first=True)
    with torch.no_grad():
        net.weight_ih_l0.copy_(wx.T)
        net.weight_hh_l0.copy_(wh.T)
    xs = x.clone().requires_grad_()
    wanted, (hn, cn) = net(xs)
    for one, other in ((y, wanted), (h, hn[0]), (c, cn[0])):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    (y.sum() + 2 * c.sum()).backward()
    (wanted.sum() + 2 * cn.sum()).backward()
    torch.testing.assert_close(mine[0].grad, xs.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine[1].grad, net.weight_ih_l0.grad.T, rtol=1e-4, atol=1e-5)


def test_what_torch_asks_of_an_operator(ours) -> None:
    (x,) = arrays((4, 6))
    softmax = ours.op("SOFTMAX")
    torch.library.opcheck(softmax, (x.requires_grad_(),))
    assert ours.op("SOFTMAX") is softmax
    assert torch.ops.ge2rt.softmax is not None


def test_halves_and_strided_tensors(ours) -> None:
    (x,) = arrays((6, 8), dtype=torch.bfloat16)
    y = ours.op("SOFTMAX")(x.T)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, nn.softmax(x.T, -1), rtol=2e-2, atol=1e-2)


def test_what_is_refused(ours) -> None:
    (x,) = arrays((4, 6))
    with pytest.raises(InvalidArgumentError, match="SOFTMAX"):
        ours.op("SOFTMAKS")
    with pytest.raises(UnsupportedError, match="lists of tensors"):
        ours.op("SGD")
    with pytest.raises(InvalidArgumentError, match="shape"):
        ours.op("CONV2D")(x, x)

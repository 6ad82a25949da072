"""The models of the examples, as a user of PyTorch would write them: peers of `suite_jit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

Weights = Mapping[str, torch.Tensor]


def tensors(weights: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The weights as tensors; memory is shared where that is possible."""
    return {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}


def _norm(x: torch.Tensor, w: Weights, name: str, eps: float) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], eps)


def _gpt2(w: Weights, x: torch.Tensor, layers: int, attend: Any) -> torch.Tensor:
    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return torch.addmm(w[f"{name}.bias"], x, w[f"{name}.weight"])

    for layer in range(layers):
        name = f"h.{layer}"
        qkv = linear(_norm(x, w, f"{name}.ln_1", 1e-5), f"{name}.attn.c_attn")
        q, k, v = (p.view(len(x), -1, 64).transpose(0, 1) for p in qkv.split(x.shape[1], 1))
        mixed = attend(layer, q, k, v).transpose(0, 1).reshape(x.shape)
        x = x + linear(mixed, f"{name}.attn.c_proj")
        inner = F.gelu(
            linear(_norm(x, w, f"{name}.ln_2", 1e-5), f"{name}.mlp.c_fc"), approximate="tanh"
        )
        x = x + linear(inner, f"{name}.mlp.c_proj")
    return (_norm(x[-1:], w, "ln_f", 1e-5) @ w["wte.weight"].T)[0]


@torch.inference_mode()
def gpt2_prefill(w: Weights, tokens: torch.Tensor, layers: int) -> torch.Tensor:
    """Logits after the last token of a prompt."""
    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]

    def attend(_: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]

    return _gpt2(w, x, layers, attend)


@torch.inference_mode()
def gpt2_step(
    w: Weights, token: int, position: int, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    """Logits after one more token; the cache is written in place and read as far as it is full."""
    x = (w["wte.weight"][token] + w["wpe.weight"][position])[None]

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        keys[layer, :, position], values[layer, :, position] = k[:, 0], v[:, 0]
        k, v = keys[layer, :, : position + 1], values[layer, :, : position + 1]
        return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    return _gpt2(w, x, len(keys), attend)


@torch.inference_mode()
def minilm(w: Weights, tokens: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """Embeddings of unit length."""

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    x = w["embeddings.word_embeddings.weight"][tokens]
    x = x + w["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    x = _norm(x + w["embeddings.token_type_embeddings.weight"][0], w, "embeddings.LayerNorm", 1e-12)
    seen = (there > 0)[:, None, None, :]
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        q, k, v = (
            linear(x, f"{name}.attention.self.{part}").view(*x.shape[:2], -1, 32).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        mixed = linear(mixed.transpose(1, 2).reshape(x.shape), f"{name}.attention.output.dense")
        x = _norm(x + mixed, w, f"{name}.attention.output.LayerNorm", 1e-12)
        inner = linear(F.gelu(linear(x, f"{name}.intermediate.dense")), f"{name}.output.dense")
        x = _norm(x + inner, w, f"{name}.output.LayerNorm", 1e-12)
    mean = (x * there[:, :, None]).sum(1) / there.sum(1, keepdim=True)
    return F.normalize(mean)

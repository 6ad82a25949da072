"""``Did you mean ...?`` for names in messages."""

from __future__ import annotations

from collections.abc import Iterable

_SHORT = 4  # names up to this length differ by a whole letter more easily
_CUTOFFS = (0.6, 0.7)  # least similarity of short names, and of others
_LEAST_PREFIX = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``Did you mean 'x'?``, or an empty string when nothing known comes near ``name``."""
    near = nearest(name, known)
    return f"Did you mean {near!r}?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like ``name`` or begins with it; empty when none is."""
    import difflib  # late: only messages need it

    by_lower = {n.lower(): n for n in known}
    low = name.lower()
    near = difflib.get_close_matches(low, by_lower, n=1, cutoff=_CUTOFFS[len(low) > _SHORT])
    if not near and len(low) >= _LEAST_PREFIX:
        near = [n for n in by_lower if n.startswith(low)][:1]
    return by_lower[near[0]] if near else ""


def hinted(message: str, name: str, known: Iterable[str], limit: int = 12) -> str:
    """``message``, and the known name that was perhaps meant, or else what is known."""
    names = list(known)
    hint = did_you_mean(name, names)
    return f"{message}. {hint}" if hint else f"{message}; known: {listing(names, limit) or 'none'}"


def listing(names: Iterable[str], limit: int = 12) -> str:
    """Names joined by commas, cut after ``limit``."""
    known = list(names)
    return ", ".join(known[:limit]) + (", ..." if len(known) > limit else "")

"""``did you mean ...?`` for names in messages."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?``, or an empty string when nothing known comes near ``name``."""
    import difflib  # late: only messages need it

    names = list(known)
    by_lower = {n.lower(): n for n in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[near[0]]!r}?" if near else ""


def listing(names: Iterable[str], limit: int = 12) -> str:
    """Names joined by commas, cut after ``limit``."""
    known = list(names)
    return ", ".join(known[:limit]) + (", ..." if len(known) > limit else "")

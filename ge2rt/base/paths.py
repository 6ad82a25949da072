"""Where things lie: shipped resources and the cache folder."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from ge2rt.base import switches
from ge2rt.base.errors import InternalError

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def resource(name: str) -> Path:
    """Path of ``kernels.yaml`` or ``templates``, in a checkout or in an installed wheel."""
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        if (root / name).exists():
            return root / name
    raise InternalError(
        f"resource {name!r} is missing from the installation",
        next_step="reinstall ge2rt",
    )


def cache_dir() -> Path:
    """Folder of the compile cache (not created here): ``GE2RT_CACHE_DIR`` or the user's cache."""
    chosen = switches.get("GE2RT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs  # late: only the first compile of a process needs it

    try:
        folder = Path(platformdirs.user_cache_dir("ge2rt", appauthor=False))
    except RuntimeError:  # a user without a home
        folder = Path("~")
    if folder.is_absolute():
        return folder
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"ge2rt-{user}"  # used only if it is the user's own

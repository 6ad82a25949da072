"""``python -m ge2rt``: the command line."""

from __future__ import annotations

from ge2rt.cli.main import main

if __name__ == "__main__":
    main()

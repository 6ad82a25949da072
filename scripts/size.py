"""Print the sizes of files and functions, and the caps that the tests hold them to.

Usage: python scripts/size.py [ROOT]
"""

from __future__ import annotations

import ast
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

FILE_CAP = 600  # lines
TABLE_CAP = 900  # of the files in TABLES, which are rows of one kind
TABLES: tuple[str, ...] = ()
FILE_MEDIAN = 160
FUNCTION_MEDIAN = 9
FUNCTION_P90 = 40


@dataclass(frozen=True)
class Sizes:
    """Lines a file and lines a function, largest last."""

    files: tuple[tuple[int, str], ...]
    functions: tuple[tuple[int, str], ...]

    @property
    def summary(self) -> dict[str, float]:
        """Median and 90th percentile figures."""
        files = [n for n, _ in self.files]
        functions = [n for n, _ in self.functions]
        return {
            "files": len(files),
            "lines": sum(files),
            "file median": statistics.median(files),
            "file largest": max(files),
            "functions": len(functions),
            "function median": statistics.median(functions),
            "function p90": functions[int(len(functions) * 0.9)],
        }


def measure(root: Path) -> Sizes:
    """Sizes of all Python files under ``root``."""
    files, functions = [], []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        files.append((text.count("\n"), str(path.relative_to(root.parent))))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                functions.append((lines, f"{files[-1][1]}:{node.lineno} {node.name}"))
    return Sizes(tuple(sorted(files)), tuple(sorted(functions)))


def faults(sizes: Sizes) -> list[str]:
    """What is above a cap, in words."""
    found = [
        f"{name} has {lines} lines, more than {cap}"
        for lines, name in sizes.files
        if lines > (cap := TABLE_CAP if name in TABLES else FILE_CAP)
    ]
    caps = {
        "file median": FILE_MEDIAN,
        "function median": FUNCTION_MEDIAN,
        "function p90": FUNCTION_P90,
    }
    summary = sizes.summary
    return found + [
        f"{n} is {summary[n]:g}, more than {c}" for n, c in caps.items() if summary[n] > c
    ]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "ge2rt"
    sizes = measure(root)
    for name, value in sizes.summary.items():
        print(f"{name:>16}: {value:g}")
    print("largest files:", *(f"\n  {n:5} {name}" for n, name in sizes.files[:-6:-1]))
    print("largest functions:", *(f"\n  {n:5} {name}" for n, name in sizes.functions[:-9:-1]))
    above = faults(sizes)
    print("above the caps:", "; ".join(above) or "nothing")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())

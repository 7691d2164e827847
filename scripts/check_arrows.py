#!/usr/bin/env python3
"""Holds the repository to its own map: which room may include which, how files are named, what
public headers include and export, and what bindings include.

usage: scripts/check_arrows.py [ROOT]

Prints one line per fault and exits with 1, or exits with 0.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# From the top down, as in ARCHITECTURE.md: a room includes itself and the rooms before it.
ROOMS = (
    "base",
    "safetensors",
    "layout",
    "codec",
    "mapping",
    "sharding",
    "plan",
    "execute",
    "comm",
    "c_api",
    "cli",
)
LIBRARY_ROOMS = ROOMS[:-1]
THIRD_PARTY = re.compile(
    r"^(fmt/|simdjson|nlohmann/|pcre2|tbb/|oneapi/|CLI/|xxhash|liburing|hwy/|mpi\.h)"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TEST_FILE = re.compile(r"_(test|testing|fuzz)\.(h|cc)$")
LANGUAGES = {".h": "C++", ".cc": "C++", ".py": "Python", ".sh": "shell"}
EXEMPT_NAMES = {"__init__.py", "conftest.py"}
BINDINGS = PurePosixPath("python/bindings")


def room_of(path: PurePosixPath) -> str | None:
    """The room that a path below `weightloom/` stands in."""
    parts = path.parts
    if len(parts) >= 3 and parts[0] == "weightloom" and parts[1] in ROOMS:
        return parts[1]
    return None


def is_test(path: PurePosixPath) -> bool:
    """True for files that are compiled into tests only."""
    return path.parts[0] == "tests" or TEST_FILE.search(path.name) is not None


def is_public_header(path: PurePosixPath) -> bool:
    """True for headers that are installed: those of the library, less tests' and internal ones."""
    return (
        path.suffix == ".h"
        and path.parts[0] == "weightloom"
        and room_of(path) in (*LIBRARY_ROOMS, None)
        and not path.stem.endswith(("_testing", "_internal"))
    )


def include_faults(path: PurePosixPath, include: str) -> Iterator[str]:
    """What is wrong with one include of one file."""
    room, other = room_of(path), room_of(PurePosixPath(include))
    if room and other and ROOMS.index(other) > ROOMS.index(room):
        yield f"{path}: {room}/ stands above {other}/ and must not include {include}"
    if include.endswith("_testing.h") and not is_test(path):
        yield f"{path}: {include} is for tests only"
    if path.is_relative_to(BINDINGS) and (include.endswith("_internal.h") or other == "cli"):
        yield f"{path}: bindings include public headers only, not {include}"
    private = THIRD_PARTY.match(include) or include.endswith("_internal.h")
    if is_public_header(path) and private:
        yield f"{path}: a public header must not include {include}"


def export_faults(path: PurePosixPath, text: str) -> Iterator[str]:
    """A namespace that does not say whether the shared library offers it."""
    marked = "\nnamespace weightloom WEIGHTLOOM_EXPORT {" in text
    plain = "\nnamespace weightloom {\n" in text
    if is_public_header(path) and plain:
        yield f"{path}: a public header opens `namespace weightloom WEIGHTLOOM_EXPORT {{`"
    if path.suffix == ".h" and not is_public_header(path) and marked:
        yield f"{path}: only public headers are exported"


def name_faults(paths: list[PurePosixPath]) -> Iterator[str]:
    """Sources of one language that share a name, or a stem, across folders."""
    folders: dict[tuple[str, str], set[PurePosixPath]] = defaultdict(set)
    for path in paths:
        language = LANGUAGES.get(path.suffix)
        if language and path.name not in EXEMPT_NAMES:
            stem = re.sub(r"_(test|testing|fuzz)$", "", path.stem)
            folders[language, stem if language == "C++" else path.stem].add(path.parent)
    for (language, stem), places in sorted(folders.items()):
        if len(places) > 1:
            where = ", ".join(sorted(f"{place}/" for place in places))
            yield f"the {language} name '{stem}' is used in {where}; names are unique"


def repository_files(root: Path) -> list[PurePosixPath]:
    """The files that git tracks or would track; all files where there is no git."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.split("\0") if name]
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    return sorted(PurePosixPath(name) for name in names if (root / name).is_file())


def faults_in(root: Path) -> list[str]:
    """All faults of the repository at `root`."""
    paths = repository_files(root)
    faults = list(name_faults(paths))
    for path in paths:
        if path.suffix in (".h", ".cc"):
            text = (root / path).read_text(encoding="utf-8")
            faults.extend(export_faults(path, text))
            for include in INCLUDE.findall(text):
                faults.extend(include_faults(path, include))
    return faults


def main() -> int:
    """The command."""
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        print(__doc__)
        return 2
    root = Path(sys.argv[1]) if len(sys.argv) == 2 else Path(__file__).resolve().parent.parent
    faults = faults_in(root)
    print("\n".join(faults) or "arrows, file names and public headers are as they should be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""scripts/check_arrows.py on made-up trees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_arrows.py"


def check(root: Path, files: dict[str, str]) -> tuple[int, str]:
    """Writes the files and gives the exit code and what the script said."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_includes_of_the_own_room_and_of_rooms_above_are_fine(tmp_path: Path) -> None:
    code, _ = check(
        tmp_path,
        {
            "weightloom/base/shape.h": "#include <vector>\n",
            "weightloom/plan/compile.cc": '#include "weightloom/base/shape.h"\n'
            '#include "weightloom/plan/compile.h"\n#include <fmt/format.h>\n',
            "weightloom/plan/compile.h": '#include "weightloom/layout/layout.h"\n',
        },
    )
    assert code == 0


def test_an_include_of_a_room_below_is_refused(tmp_path: Path) -> None:
    code, said = check(
        tmp_path, {"weightloom/layout/layout.cc": '#include "weightloom/plan/compile.h"\n'}
    )
    assert code == 1
    assert "weightloom/layout/layout.cc" in said
    assert "weightloom/plan/compile.h" in said


def test_the_library_must_not_include_the_command(tmp_path: Path) -> None:
    code, said = check(
        tmp_path, {"weightloom/execute/run.cc": '#include "weightloom/cli/screen.h"\n'}
    )
    assert code == 1
    assert "cli/" in said


@pytest.mark.parametrize("user", ["weightloom/base/file_test.cc", "tests/faults.cc"])
def test_tests_may_include_testing_headers(tmp_path: Path, user: str) -> None:
    code, _ = check(tmp_path, {user: '#include "weightloom/base/syscalls_testing.h"\n'})
    assert code == 0


@pytest.mark.parametrize("user", ["weightloom/base/file.cc", "bench/load_runtime.cc"])
def test_other_code_must_not_include_testing_headers(tmp_path: Path, user: str) -> None:
    code, said = check(tmp_path, {user: '#include "weightloom/base/syscalls_testing.h"\n'})
    assert code == 1
    assert "for tests only" in said


@pytest.mark.parametrize(
    "include",
    [
        "fmt/format.h",
        "simdjson.h",
        "nlohmann/json.hpp",
        "pcre2.h",
        "tbb/task_group.h",
        "CLI/CLI.hpp",
    ],
)
def test_a_public_header_includes_nothing_of_others(tmp_path: Path, include: str) -> None:
    code, said = check(tmp_path, {"weightloom/mapping/pattern.h": f"#include <{include}>\n"})
    assert code == 1
    assert include in said


def test_sources_internal_headers_and_the_command_may(tmp_path: Path) -> None:
    text = "#include <fmt/format.h>\n"
    files = ("mapping/pattern.cc", "mapping/json_internal.h", "cli/screen.h", "base/temp_testing.h")
    code, _ = check(tmp_path, {f"weightloom/{name}": text for name in files})
    assert code == 0


def test_a_header_its_source_and_its_tests_share_a_stem(tmp_path: Path) -> None:
    names = ("shape.h", "shape.cc", "shape_test.cc", "shape_fuzz.cc", "shape_testing.h")
    code, _ = check(tmp_path, {f"weightloom/base/{name}": "\n" for name in names})
    assert code == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("weightloom/base/index.h", "weightloom/plan/index.cc"),
        ("weightloom/base/index.h", "bench/index.h"),
        ("scripts/report.py", "bench/report.py"),
    ],
)
def test_a_name_in_two_folders_is_refused(tmp_path: Path, one: str, other: str) -> None:
    code, said = check(tmp_path, {one: "\n", other: "\n"})
    assert code == 1
    assert str(Path(one).parent) in said
    assert str(Path(other).parent) in said


def test_files_that_every_folder_has_are_exempt(tmp_path: Path) -> None:
    names = ("README.md", "CMakeLists.txt", "__init__.py", "conftest.py")
    files = {f"{folder}/{name}": "\n" for folder in ("one", "two") for name in names}
    code, _ = check(tmp_path, files)
    assert code == 0


@pytest.mark.parametrize("header", ["weightloom/plan/lower_internal.h", "weightloom/cli/table.h"])
def test_bindings_include_public_headers_only(tmp_path: Path, header: str) -> None:
    name = "python/bindings/plan_binding.cc"
    code, said = check(tmp_path, {name: f'#include "{header}"\n'})
    assert code == 1
    assert header in said
    assert check(tmp_path, {name: '#include "weightloom/plan/conversion.h"\n'})[0] == 0

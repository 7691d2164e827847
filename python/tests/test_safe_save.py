"""Saving over the source, over an older save, with too little disk, and being killed in the middle.

An output is the old checkpoint or the new one, never a mixture, and never zeros.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import Command, Result
from safetensors_by_hand import Tensor, f32, facts, read_folder, write_file, write_sharded

OLD = {f"layers.{i}.weight": f32(10 + i, (64, 64)) for i in range(8)}
NEW = {f"layers.{i}.weight": f32(10 + i, (64, 64), add=1) for i in range(8)}
TOTAL_BYTES = sum(len(t.data) for t in NEW.values())
KEPT = {"adapter_model.safetensors": f32(30, (4,)), "model.fp16.safetensors": f32(31, (4,))}
ONE_FILE = ("--max-shard-size", "1GB")
TWO_SHARDS = ("--max-shard-size", "64KiB")
INDEX = "model.safetensors.index.json"
KILLS = 20
SEED = int(os.environ.get("WEIGHTLOOM_TEST_SEED", "20240229"))


def older_save(folder: Path) -> Path:
    """An older save in four shards, with two files that belong to others."""
    write_sharded(folder, OLD, 4)
    for name, tensor in KEPT.items():
        write_file(folder / name, {"kept": tensor})
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that holds `older_save` and `new_values`."""
    older_save(tmp_path / "older_save")
    write_sharded(tmp_path / "new_values", NEW, 2)
    return tmp_path


def work_folder(target: Path) -> Path:
    """Where a convert to `target` builds its output."""
    return target.parent / f".{target.name}.weightloom-work"


def overwrite(weightloom: Command, place: Path, *flags: object, **options: object) -> Result:
    """Converts `new_values` over `older_save`."""
    source, target = place / "new_values", place / "older_save"
    arguments = ("--mapping", "none", "--overwrite", *flags)
    return weightloom("convert", source, target, *arguments, **options)


def assert_refused_and_unchanged(result: Result, folder: Path) -> None:
    """The command refused, and the folder reads as before."""
    assert result.code == 3, result.said
    assert facts(read_folder(folder)) == facts(OLD)
    assert not work_folder(folder).exists()


# ---- over itself, over an older save -------------------------------------------------------------


def test_a_folder_over_itself(weightloom: Command, tmp_path: Path) -> None:
    write_sharded(tmp_path / "source", OLD, 4)
    folder = tmp_path / "source"
    result = weightloom("convert", folder, folder, "--mapping", "none", "--overwrite")
    assert result.code in (0, 3), result.said
    assert facts(read_folder(folder)) == facts(OLD)


def test_a_file_over_itself(weightloom: Command, tmp_path: Path) -> None:
    path = tmp_path / "single" / "model.safetensors"
    write_file(path, OLD)
    result = weightloom("convert", path, path, "--mapping", "none", "--overwrite")
    assert result.code in (0, 3), result.said
    assert facts(read_folder(path.parent)) == facts(OLD)


def test_old_shards_are_gone_and_others_files_are_kept(weightloom: Command, place: Path) -> None:
    kept = {name: (place / "older_save" / name).read_bytes() for name in KEPT}
    overwrite(weightloom, place, *TWO_SHARDS).done()
    target = place / "older_save"
    assert facts(read_folder(target)) == facts(NEW)
    shards = {f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}
    assert {p.name for p in target.glob("*.safetensors")} == shards | set(KEPT)
    assert {name: (target / name).read_bytes() for name in KEPT} == kept


def test_no_old_index_stays_beside_one_new_file(weightloom: Command, place: Path) -> None:
    overwrite(weightloom, place, *ONE_FILE).done()
    target = place / "older_save"
    assert not (target / INDEX).exists()
    assert {p.name for p in target.glob("*.safetensors")} == {"model.safetensors", *KEPT}
    assert facts(read_folder(target)) == facts(NEW)


def test_side_files_come_along_but_not_the_old_index(weightloom: Command, place: Path) -> None:
    source = place / "new_values"
    (source / "config.json").write_text('{"model_type": "llama"}\n')
    (source / "tokenizer.json").write_text('{"vocab": {}}\n')
    weightloom("convert", source, place / "out", *ONE_FILE).done()
    assert not (place / "out" / INDEX).exists()
    for name in ("config.json", "tokenizer.json"):
        assert (place / "out" / name).read_bytes() == (source / name).read_bytes()


# ---- too little room, no permission --------------------------------------------------------------


def limit_file_size() -> None:
    """As `ulimit -f 32`: a file may hold 32 KiB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 10, 32 << 10))


def test_a_file_size_limit_is_told_and_nothing_changes(weightloom: Command, place: Path) -> None:
    result = overwrite(weightloom, place, *TWO_SHARDS, preexec_fn=limit_file_size)
    assert_refused_and_unchanged(result, place / "older_save")
    assert "limit" in result.stderr or "space" in result.stderr
    assert "older_save" in result.stderr
    assert any(character.isdigit() for character in result.stderr)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A tmpfs with room for the older save and 64 KiB more."""
    folder = Path(tempfile.mkdtemp())
    size = TOTAL_BYTES + (96 << 10)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
    folder.rmdir()


def test_a_full_disk_is_told_and_nothing_changes(
    weightloom: Command, place: Path, small_disk: Path
) -> None:
    older_save(small_disk / "older_save")
    arguments = ("--mapping", "none", "--overwrite", *TWO_SHARDS)
    result = weightloom("convert", place / "new_values", small_disk / "older_save", *arguments)
    assert_refused_and_unchanged(result, small_disk / "older_save")
    assert "space" in result.stderr
    assert str(small_disk) in result.stderr
    assert any(character.isdigit() for character in result.stderr)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that every user can reach, with `older_save` and `new_values`, all readable."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        older_save(place / "older_save")
        write_sharded(place / "new_values", NEW, 2)
        yield place


def as_nobody(weightloom: Command, place: Path) -> Command:
    """The command run by a user who may not write here: nobody, where this process is root."""
    if os.geteuid() != 0:
        return weightloom
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv to become another user with")
    copied = place / "command" / "weightloom"
    copied.parent.mkdir()
    shutil.copy2(weightloom.path, copied)
    script = place / "command" / "as_nobody.sh"
    become = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    script.write_text(f'#!/bin/sh\nexec {become} "{copied}" "$@"\n')
    script.chmod(0o755)
    copied.chmod(0o755)
    return Command(script)


@pytest.mark.parametrize("closed", ["older_save", "."])
def test_an_unwritable_folder_is_told_and_nothing_changes(
    weightloom: Command, open_place: Path, closed: str
) -> None:
    command = as_nobody(weightloom, open_place)
    target = open_place / "older_save"
    other_way = {"older_save": open_place, ".": target}[closed]
    other_way.chmod(0o777)
    (open_place / closed).chmod(0o555)
    try:
        result = overwrite(command, open_place, *TWO_SHARDS)
    finally:
        (open_place / closed).chmod(0o755)
    assert_refused_and_unchanged(result, target)
    assert "older_save" in result.stderr or str(open_place) in result.stderr


# ---- kill -9 -------------------------------------------------------------------------------------


def large(add: int) -> dict[str, Tensor]:
    """Sixteen tensors of 4 MiB: enough for a kill to land inside."""
    words = np.arange(1 << 20, dtype="<u4")
    return {
        f"layers.{i}.weight": Tensor("U32", (1024, 1024), (words * (2 * i + 1) + add).tobytes())
        for i in range(16)
    }


class KillCase:
    """A 64 MiB checkpoint that replaces another, so slowly that it can be killed anywhere."""

    flags = ("--mapping", "none", "--overwrite", "--max-shard-size", "16MiB", "--threads", "1")

    def __init__(self, weightloom: Command, place: Path) -> None:
        self.weightloom = weightloom
        self.source, self.target = place / "new_values", place / "older_save"
        self.pristine = place / "pristine"
        write_sharded(self.source, large(1), 4)
        write_sharded(self.pristine, large(0), 4)
        for name, tensor in KEPT.items():
            write_file(self.pristine / name, {"kept": tensor})
        self.old, self.new = facts(large(0)), facts(large(1))

    def restore(self) -> None:
        """The older save as it was, and no leftovers."""
        shutil.rmtree(self.target, ignore_errors=True)
        shutil.rmtree(work_folder(self.target), ignore_errors=True)
        shutil.copytree(self.pristine, self.target)

    def run(self, *flags: str) -> Result:
        """One convert to its end."""
        return self.weightloom("convert", self.source, self.target, *self.flags, *flags)

    def run_and_kill(self, delay_seconds: float) -> None:
        """One convert, killed after a while; it may have ended before."""
        command = [self.weightloom.path, "convert", self.source, self.target, *self.flags]
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay_seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def seconds(self) -> float:
        """How long an undisturbed convert takes, the second time."""
        for _ in range(2):
            self.restore()
            start = time.monotonic()
            self.run().done()
            took = time.monotonic() - start
        return took

    def check_after_kill(self) -> bool:
        """Old or new, whole; others' files kept. True if it is the old one with leftovers."""
        found = facts(read_folder(self.target))
        assert found in (self.old, self.new)
        for name in KEPT:
            assert (self.target / name).read_bytes() == (self.pristine / name).read_bytes()
        seen = self.weightloom("inspect", self.target, "--json").done().json
        assert {t["name"] for t in seen["tensors"]} == set(self.old)
        return work_folder(self.target).exists()

    def files(self) -> dict[str, bytes]:
        """All files of the target."""
        return {p.name: p.read_bytes() for p in self.target.iterdir()}


@pytest.fixture
def kill_case(weightloom: Command, tmp_path: Path) -> KillCase:
    """The case, in a folder of its own."""
    return KillCase(weightloom, tmp_path)


def test_kill_9_leaves_the_old_or_the_new(kill_case: KillCase) -> None:
    moments = random.Random(SEED)
    seconds = kill_case.seconds()
    inside = 0
    for number in range(KILLS):
        delay = moments.uniform(0, seconds)
        print(f"kill {number} of seed {SEED} after {delay:.4f} of {seconds:.4f} s")
        kill_case.restore()
        kill_case.run_and_kill(delay)
        inside += kill_case.check_after_kill()
        kill_case.run().done()
        assert facts(read_folder(kill_case.target)) == kill_case.new
        assert not work_folder(kill_case.target).exists()
    assert inside > 0, "no kill landed while the output was being written"


def test_resume_after_kill_9_gives_identical_bytes(kill_case: KillCase) -> None:
    moments = random.Random(SEED + 1)
    seconds = kill_case.seconds()
    wanted = kill_case.files()
    inside = 0
    for _ in range(8):
        kill_case.restore()
        kill_case.run_and_kill(moments.uniform(0.2, 1.0) * seconds)
        inside += kill_case.check_after_kill()
        kill_case.run("--resume").done()
        assert kill_case.files() == wanted
        assert not work_folder(kill_case.target).exists()
    assert inside > 0, "no kill landed while the output was being written"


def test_resume_with_another_source_does_not_mix(kill_case: KillCase) -> None:
    seconds = kill_case.seconds()
    kill_case.restore()
    kill_case.run_and_kill(0.6 * seconds)
    shutil.rmtree(kill_case.source)
    write_sharded(kill_case.source, large(2), 4)
    result = kill_case.run("--resume")
    wanted = [facts(large(2))] if result.code == 0 else [kill_case.old, kill_case.new]
    assert facts(read_folder(kill_case.target)) in wanted

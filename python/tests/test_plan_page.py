"""The page that `plan --html` writes, opened in a browser without a window."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Command
from safetensors_by_hand import f32, write_file

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# Measures what stands on the page, when all of it does.
PROBE = """
<script>
window.addEventListener('load', () => {
  const seen = [...document.querySelectorAll('main svg rect, main td, main h1, main summary')]
    .filter(e => !e.closest('details:not([open])'))
    .map(e => [e.tagName, e.getBoundingClientRect().width, e.getBoundingClientRect().height]);
  const out = document.createElement('pre');
  out.id = 'probe';
  out.textContent = JSON.stringify({
    seen,
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    requests: performance.getEntriesByType('resource').map(e => e.name)
      .filter(name => !name.startsWith('data:')),
    picked: (() => {
      document.querySelector('.legend [data-rank="1"]').click();
      return document.querySelectorAll('rect.picked').length;
    })(),
  });
  document.body.append(out);
});
</script>
"""


def browse(arguments: Sequence[str], profile: Path) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    flags += ["--window-size=1240,2000", f"--user-data-dir={profile}", "--virtual-time-budget=5000"]
    return subprocess.run(
        [CHROMIUM, *flags, *arguments], capture_output=True, text=True, timeout=120, check=True
    )


@pytest.fixture
def page(weightloom: Command, tmp_path: Path) -> Path:
    """Of two layers, a row cut, a column cut with padding, replicas, and a hostile name."""
    tensors = {}
    for layer in range(2):
        tensors[f"layers.{layer}.up.weight"] = f32(layer, (9, 4))
        tensors[f"layers.{layer}.down.weight"] = f32(layer + 7, (4, 9))
    tensors["<img src='http://x/'>"] = f32(5, (3,))
    write_file(tmp_path / "model.safetensors", tensors)
    (tmp_path / "placements.json").write_text(
        json.dumps(
            [
                {"pattern": "*.up.*", "placements": [{"axis": "tp", "shard": 0}]},
                {
                    "pattern": "*.down.*",
                    "placements": [
                        {"pad": {"dim": 1, "multiple": 4}},
                        {"axis": "tp", "shard": 1},
                        {"axis": "fsdp", "shard": 0},
                    ],
                },
                {"pattern": "*", "placements": []},
            ]
        )
    )
    path = tmp_path / "plan.html"
    weightloom(
        "plan",
        tmp_path / "model.safetensors",
        *("--mesh", "fsdp=2,tp=2", "--placements", tmp_path / "placements.json", "--html", path),
    ).done()
    return path


def probed(page: Path) -> tuple[Any, str]:
    """What the probe saw, and what the browser said."""
    probe = page.with_name("probe.html")
    probe.write_text(page.read_text() + PROBE)
    done = browse(["--dump-dom", probe.as_uri()], page.parent / "profile")
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(found[1]), done.stderr


@needs_browser
def test_all_that_the_page_draws_has_a_size(page: Path) -> None:
    seen, said = probed(page)
    assert "CONSOLE" not in said
    assert len(seen["seen"]) > 30
    assert [drawn for drawn in seen["seen"] if drawn[1] <= 0 or drawn[2] <= 0] == []
    assert not seen["wide"]
    assert seen["picked"] > 3  # its own of each pattern, and what all ranks hold


@needs_browser
def test_the_page_asks_for_nothing_else(page: Path) -> None:
    seen, _ = probed(page)
    assert seen["requests"] == []


@needs_browser
def test_the_page_is_there_to_see(page: Path) -> None:
    picture = page.with_name("plan.png")
    browse([f"--screenshot={picture}", page.as_uri()], page.parent / "profile")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000  # a blank page of that size has a tenth


def test_a_model_of_many_layers_gives_a_small_page(weightloom: Command, tmp_path: Path) -> None:
    tensors = {
        f"layers.{layer}.{name}.weight": f32(layer, (4, 2))
        for layer in range(60)
        for name in ("q", "k", "v", "o", "up", "gate", "down")
    }
    write_file(tmp_path / "model.safetensors", tensors)
    path = tmp_path / "plan.html"
    source = tmp_path / "model.safetensors"
    weightloom("plan", source, "--mesh", "fsdp=4", "--html", path).done()
    assert path.stat().st_size < 150_000
    assert path.read_text().count('<svg class="key"') == 7

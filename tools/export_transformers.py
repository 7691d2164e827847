#!/usr/bin/env python3
"""Write what Weightloom ships of the installed Transformers: mappings, model classes, plans.

    python tools/export_transformers.py                   # writes mappings/
    python tools/export_transformers.py --check           # compares; exits 1 with a diff
    python tools/export_transformers.py --check --only mappings

`mappings/NAME.json` holds one distinct list of transforms, with the other names that are registered
for it as aliases; `mappings/models.json` holds the model classes, and
`mappings/parallel_plans.json` how they are split over ranks (docs/mappings.md). A class that needs
a package that is not installed keeps the entry that it has; its name is printed. timm, torchvision,
torchaudio, scipy and pillow are needed to make every entry anew.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import multiprocessing
import os
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import model_catalogue  # noqa: E402
import parallel_plans  # noqa: E402
import tiny_configs  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import conversion_mapping  # noqa: E402
from transformers_declarations import declared_for  # noqa: E402


def loaded_rules() -> Any:
    """The package's translator, from its file: the package need not be built."""
    path = ROOT / "python" / "weightloom" / "_transformers_rules.py"
    spec = importlib.util.spec_from_file_location("weightloom_transformers_rules", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


rules = loaded_rules()
MAPPINGS = ROOT / "mappings"
CATALOGUE = "models.json"
PLANS = "parallel_plans.json"
PARTS = {CATALOGUE: "models", PLANS: "plans"}


def registered() -> dict[str, list[Any]]:
    """Every list of transforms that Transformers registers, by key, in its order."""
    return conversion_mapping._build_checkpoint_conversion_mapping()


def in_pairs(form: dict[str, Any]) -> list[dict[str, Any]]:
    """A renaming of several sources to one target as one of each, so that each has a way back.

    Only where that says the same: all sources stand at the begin of a name, and what one has
    renamed is no source of another.
    """
    sources, targets = form.get("source_patterns", []), form.get("target_patterns", [])
    if form["type"] != "WeightRenaming" or len(targets) != 1 or len(sources) < 2:
        return [form]
    anchored = all(source.startswith("^") for source in sources)
    if not anchored or any(re.search(source, targets[0] + ".x") for source in sources):
        return [form]
    return [{**form, "source_patterns": [source]} for source in sources]


def mapping_files() -> dict[str, str]:
    """Text of each mapping file by name: one for each distinct list, named by its first key."""
    names: dict[str, list[str]] = {}
    forms: dict[str, dict[str, Any]] = {}
    for key, transforms in registered().items():
        form = rules.mapping_to_json(key, transforms, declared=declared_for(key))
        form["transforms"] = [each for t in form["transforms"] for each in in_pairs(t)]
        text = json.dumps(form["transforms"])
        names.setdefault(text, []).append(key)
        forms.setdefault(text, form)
    files = {}
    for text, (first, *others) in names.items():
        form = forms[text]
        if others:
            transforms = form.pop("transforms")
            form |= {"aliases": sorted(others), "transforms": transforms}
        files[f"{first}.json"] = rules.mapping_text(form)
    return dict(sorted(files.items()))


def catalogue_entries(class_names: Iterable[str], jobs: int) -> dict[str, dict[str, Any]]:
    """Entries of classes, by name, with those that other classes' sub-models add to."""
    names = list(class_names)
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=200) as pool:
        found = pool.map(model_catalogue.entries_of, names, chunksize=8)
    return model_catalogue.merged(dict(zip(names, found, strict=True)))


def catalogue_text(entries: dict[str, dict[str, Any]], autos: dict[str, dict[str, str]]) -> str:
    """The catalogue, one class a line, so that a new release is a readable diff."""
    head = {"format": model_catalogue.FORMAT, "transformers": transformers.__version__}
    return (
        f"{compact(head)[:-1]},\n"
        f' "auto": {{\n{lines(autos)}}},\n'
        f' "classes": {{\n{lines(entries)}}}}}\n'
    )


def lines(entries: dict[str, Any]) -> str:
    """Entries, one a line."""
    return ",\n".join(f"  {json.dumps(k)}: {compact(v)}" for k, v in sorted(entries.items()))


def compact(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


def plans_file() -> str:
    """Text of the parallel plans; a class that cannot be imported keeps those that it has."""
    classes = parallel_plans.plans_of_classes(tiny_configs.model_classes())
    lacking = tiny_configs.classes_not_imported()
    kept = {name: plans for name, plans in shipped_entries(PLANS).items() if name in lacking}
    head = {"format": parallel_plans.FORMAT, "transformers": transformers.__version__}
    return (
        f"{compact(head)[:-1]},\n"
        f' "configs": {{\n{lines(parallel_plans.plans_of_configs())}}},\n'
        f' "classes": {{\n{lines(classes | kept)}}}}}\n'
    )


def shipped_entries(file: str) -> dict[str, dict[str, Any]]:
    """Entries of the classes in a file that is there."""
    path = MAPPINGS / file
    return json.loads(path.read_text(encoding="utf-8"))["classes"] if path.exists() else {}


def catalogue_file(jobs: int) -> str:
    """Text of the catalogue."""
    entries = catalogue_entries(tiny_configs.model_classes(), jobs)
    for name, package in tiny_configs.classes_not_imported().items():
        entries.setdefault(name, {"tree": False, "lacks": package})
    return finished_catalogue(entries)


def finished_catalogue(entries: dict[str, dict[str, Any]]) -> str:
    """Text of the catalogue; what this environment cannot build keeps the entry that it has."""
    shipped = shipped_entries(CATALOGUE)
    kept = []
    for name in list(entries):
        if (package := entries[name].pop("lacks", None)) is None:
            continue
        if name in shipped:
            entries[name] = shipped[name]
            kept.append(f"{name} ({package})")
        elif "model_type" not in entries[name]:
            del entries[name]
    if kept:
        print(f"kept, for lack of a package: {', '.join(kept)}", file=sys.stderr)
    return catalogue_text(entries, model_catalogue.auto_tables(entries))


def shipped_files() -> dict[str, str]:
    """Text of each file that is there, by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(MAPPINGS.glob("*.json"))}


def differences(wanted: dict[str, str], shipped: dict[str, str]) -> list[str]:
    """Lines of a diff from what is shipped to what the installed Transformers makes."""
    found: list[str] = []
    for name in sorted(wanted | shipped):
        before = shipped.get(name, "").splitlines(keepends=True)
        after = wanted.get(name, "").splitlines(keepends=True)
        ours, theirs = f"mappings/{name}", f"Transformers {transformers.__version__}: {name}"
        found += difflib.unified_diff(before, after, ours, theirs, n=0)
    return found


def write(files: dict[str, str], replaced: Iterable[str]) -> None:
    """Writes the files, and removes those of the shipped ones that they replace."""
    for name in set(replaced) - set(files):
        (MAPPINGS / name).unlink()
    for name, text in files.items():
        (MAPPINGS / name).write_text(text, encoding="utf-8")


def main() -> int:
    """Parse the arguments, then write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--only", choices=["mappings", "models", "plans"], help="one part")
    parser.add_argument("--jobs", type=int, default=2, help="processes that build models")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)

    wanted: dict[str, str] = {}
    if arguments.only in (None, "mappings"):
        wanted |= mapping_files()
    if arguments.only in (None, "models"):
        wanted[CATALOGUE] = catalogue_file(arguments.jobs)
    if arguments.only in (None, "plans"):
        wanted[PLANS] = plans_file()
    shipped = {
        name: text
        for name, text in shipped_files().items()
        if arguments.only in (None, PARTS.get(name, "mappings"))
    }
    if not arguments.check:
        write(wanted, shipped)
        return 0
    found = differences(wanted, shipped)
    sys.stdout.writelines(found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

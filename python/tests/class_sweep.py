"""Every model class that Transformers registers a mapping for, as a tiny model, through Weightloom.

    python python/tests/class_sweep.py [--classes A,B] [--jobs 2] [--table docs/model_classes.md]

For each class a small random model is saved by Transformers. Then, with that folder as the only
knowledge, the command converts it to the runtime layout, which must be the model's `state_dict()`
in names, dtypes and bits, and back, which must give the files that Transformers wrote, byte for
byte; without the record, by the rules alone, the tensors. The Python package loads the same folder
and saves the model again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "python" / "tests")]

import tiny_configs  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors import safe_open  # noqa: E402
from transformers import PreTrainedModel, conversion_mapping  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES  # noqa: E402

MOST_PARAMETERS = 300_000_000
SECONDS_PER_CLASS = 180
LEVELS = (0, 1, 2, 3, 4, 5)
# Of the heads of a model type, the first of these that there is stands for them all.
HEADS = [
    "CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "SEQ_TO_SEQ",
    "MASKED_LM",
    "OBJECT",
    "IMAGE_CLASS",
    "SPEECH",
    "PRETRAINING",
]


# Classes with something that few others have: check_dims, Split, Interleave, index offsets, group
# renames, many-to-many, scopes, prefixes, empty patterns, look-behinds.
ALWAYS = (
    "BeitModel",
    "CLIPVisionModel",
    "DeepseekV3ForCausalLM",
    "DetrForSegmentation",
    "Ernie4_5_VLMoeForConditionalGeneration",
    "GteModel",
    "HrmTextForCausalLM",
    "Inkling2ForCausalLM",
    "InklingModel",
    "KimiLinearForCausalLM",
    "Kimi_K25ForConditionalGeneration",
    "LlavaForConditionalGeneration",
    "MistralLarge4ForConditionalGeneration",
    "MixtralForCausalLM",
    "Molmo2TextModel",
    "Qwen3VLMoeForConditionalGeneration",
    "RfDetrForObjectDetection",
    "Step3p7Model",
)


@dataclass
class Outcome:
    """What became of one class."""

    name: str
    model_type: str = ""
    built: bool = False
    reason: str = ""  # why it was not built, or what went wrong
    transforms: int = 0
    tensors: int = 0
    seconds: float = 0.0
    checks: list[str] = field(default_factory=list)

    @property
    def covered(self) -> bool:
        """Built, and everything was right."""
        return self.built and not self.reason


def registered_classes() -> list[str]:
    """Class keys, and of each model type that is a key one head and the base class; sorted."""
    known = tiny_configs.modules_of_classes()
    names = set()
    for key in conversion_mapping._build_checkpoint_conversion_mapping():
        names |= {key} if key in known else set(classes_of_type(key))
    return sorted(names & known.keys())


def classes_of_type(model_type: str) -> list[str]:
    """One head and the base class; else every class with that model_type."""
    tables = {
        name: table[model_type]
        for name, table in vars(modeling_auto).items()
        if re.fullmatch(r"MODEL_.*MAPPING_NAMES", name) and model_type in table
    }
    tables = {name: each if isinstance(each, str) else each[0] for name, each in tables.items()}
    base = tables.pop("MODEL_MAPPING_NAMES", None)
    ranked = [each for word in HEADS for name, each in tables.items() if word in name]
    heads = [*ranked, *tables.values()][:1]
    found = [name for name in (*heads, base) if name]
    return found or classes_that_say(model_type)


def classes_that_say(model_type: str) -> list[str]:
    """The classes whose config has this model_type, by the module's name."""
    word = CONFIG_MAPPING_NAMES.get(model_type, "").removesuffix("Config")
    return [
        name
        for name in tiny_configs.modules_of_classes()
        if word and name.startswith(word) and type_of(name) == model_type
    ]


def type_of(name: str) -> str | None:
    """The model_type of a class."""
    found = tiny_configs.class_named(name)
    concrete = found is not None and tiny_configs.is_concrete(found)
    return found.config_class.model_type if concrete else None


def build(model_class: type[PreTrainedModel]) -> PreTrainedModel:
    """A small model on the CPU, every float from a seed: constructors leave norms at one."""
    reasons = []
    for level in LEVELS:
        try:
            config = tiny_configs.tiny_config(model_class, level)
            size = sum(p.numel() for p in tiny_configs.on_meta(model_class, config).parameters())
            if size > MOST_PARAMETERS:
                raise ValueError(f"{size} parameters")
            return filled(model_class(tiny_configs.tiny_config(model_class, level)))
        except Exception as error:  # whatever a constructor raises
            if isinstance(error, ImportError):
                package = tiny_configs.missing_package(str(error))
                raise tiny_configs.NotBuilt([f"needs {package}"], package) from error
            said = [line.strip() for line in str(error).splitlines() if line.strip()]
            reasons.append(f"level {level}: {(said or [type(error).__name__])[-1][:160]}")
    raise tiny_configs.NotBuilt(reasons, "")


def filled(model: PreTrainedModel) -> PreTrainedModel:
    """The model with all floats from a seed."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator).to(tensor.dtype))
    return model


class Mismatch(AssertionError):
    """Something that is not as Transformers has it."""


def command(*arguments: object) -> str:
    """Runs the command; its output."""
    folder = Path(os.environ.get("WEIGHTLOOM_BUILD_DIR", ROOT / "build" / "release"))
    done = subprocess.run(
        [str(folder / "weightloom"), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Mismatch(
            f"weightloom {arguments[0]}: {(done.stderr + done.stdout[-600:]).strip()[:900]}"
        )
    return done.stdout


def stored(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a folder."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            tensors |= {name: file.get_tensor(name) for name in list(file.keys())}
    return tensors


def compare(what: str, got: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    """Names, dtypes, shapes and bits."""
    for title, names in (
        ("lacks", wanted.keys() - got.keys()),
        ("has", got.keys() - wanted.keys()),
    ):
        if names:
            raise Mismatch(f"{what} {title} {len(names)} names: {sorted(names)[:4]}")
    for name, tensor in wanted.items():
        if not same(got[name], tensor):
            raise Mismatch(f"{what}: {name} differs ({got[name].dtype} {list(got[name].shape)})")


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal bit for bit."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = (each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (a, b))
    return torch.equal(a, b)


def runtime_tensors(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """What a checkpoint of the model is to give: all but what its class does not save."""
    ignored = [re.compile(pattern) for pattern in model._keys_to_ignore_on_save or []]
    return {
        name: tensor
        for name, tensor in model.state_dict().items()
        if isinstance(tensor, torch.Tensor) and not any(p.search(name) for p in ignored)
    }


def with_tied(tensors: dict[str, torch.Tensor], plan: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors, and those that the plan says stand for one of them."""
    return tensors | {tie["name"]: tensors[tie["same_as"]] for tie in plan["tied"]}


def check_command(model: PreTrainedModel, disk: Path, work: Path) -> Iterator[str]:
    """The command line, with config.json as the only knowledge."""
    expected = work / "expected.json"
    wanted = runtime_tensors(model)
    expected.write_text(json.dumps({name: {"shape": list(t.shape)} for name, t in wanted.items()}))
    plan = json.loads(command("plan", disk, "--to", "runtime", "--json", "--expect", expected))
    runtime = work / "runtime"
    command("convert", disk, runtime, "--to", "runtime", "--quiet")
    compare("the runtime layout", with_tied(stored(runtime), plan), wanted)
    yield "runtime"
    back = work / "back"
    command("convert", runtime, back, "--to", "hub", "--quiet")
    for file in disk.glob("*.safetensors*"):
        if file.read_bytes() != (back / file.name).read_bytes():
            raise Mismatch(f"going back does not give {file.name} byte for byte")
    yield "back"
    (runtime / "weightloom.json").unlink()
    by_rules = work / "by_rules"
    command("convert", runtime, by_rules, "--from", "runtime", "--to", "hub", "--quiet")
    compare("going back by the rules", stored(by_rules), stored(disk))
    yield "rules"


def check_package(model: PreTrainedModel, disk: Path, work: Path) -> Iterator[str]:
    """The Python package: loads what Transformers saved, and saves it again."""
    import weightloom.transformers as loom

    try:
        original, wanted_report = type(model).from_pretrained(disk, output_loading_info=True)
    except Exception:  # what the original cannot load is no measure
        return
    loaded, report = loom.from_pretrained(type(model), disk, output_loading_info=True)
    compare("from_pretrained", tensors_of(loaded), tensors_of(original))
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if set(report[key]) != set(wanted_report[key]):
            raise Mismatch(f"from_pretrained: {key} are {report[key]}, not {wanted_report[key]}")
    if loaded.training != original.training:
        raise Mismatch("from_pretrained leaves the model in another mode")
    yield "from_pretrained"
    saved, wanted = work / "saved", work / "wanted"
    loom.save_pretrained(loaded, saved)
    if "quantization_config" in json.loads((disk / "config.json").read_text()):
        # The original would quantise the values, of the embedding and the head too.
        compare("save_pretrained", stored(saved), stored(disk))
        yield "save_pretrained"
        return
    original.save_pretrained(wanted)
    for file in wanted.glob("*.safetensors*"):
        if file.read_bytes() != (saved / file.name).read_bytes():
            raise Mismatch(f"save_pretrained does not give {file.name} byte for byte")
    yield "save_pretrained"


def tensors_of(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The tensors of its state_dict."""
    state = model.state_dict()
    return {name: tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}


#: Of a model, the folder that Transformers saved it to, and a folder to work in: what is right.
Check = Callable[[PreTrainedModel, Path, Path], Iterator[str]]
CHECKS: tuple[Check, ...] = (check_command, check_package)


def check_class(name: str, checks: tuple[Check, ...]) -> Outcome:
    """Builds one class and runs every check on it."""
    outcome = Outcome(name)
    begin = time.monotonic()
    try:
        model_class = tiny_configs.class_named(name)
        if model_class is None:
            raise tiny_configs.NotBuilt(["its module cannot be imported"], "")
        outcome.model_type = model_class.config_class.model_type
        model = build(model_class)
        outcome.built = True
        with tempfile.TemporaryDirectory() as folder:
            run_checks(model, Path(folder), outcome, checks)
    except Exception as error:
        kind = "" if isinstance(error, (Mismatch, tiny_configs.NotBuilt)) else type(error).__name__
        outcome.reason = f"{kind} {error}".strip()
    outcome.seconds = round(time.monotonic() - begin, 2)
    return outcome


def run_checks(
    model: PreTrainedModel, folder: Path, outcome: Outcome, checks: tuple[Check, ...]
) -> None:
    """All checks on a model that is built."""
    disk = folder / "disk"
    model.save_pretrained(disk)
    outcome.tensors = len(stored(disk))
    outcome.transforms = len(
        conversion_mapping.get_model_conversion_mapping(model, add_legacy=False) or []
    )
    for check in checks:
        for passed in check(model, disk, folder):
            outcome.checks.append(passed)


def in_child(name: str, checks: tuple[Check, ...]) -> tuple[int, int]:
    """Starts `check_class` in a child; its process and the pipe that its outcome comes through."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        signal.alarm(SECONDS_PER_CLASS)
        with os.fdopen(write, "w") as file:
            json.dump(asdict(check_class(name, checks)), file)
        os._exit(0)
    os.close(write)
    return child, read


def half(names: list[str]) -> list[str]:
    """Every other class, and those that have a kind of transform to themselves."""
    return sorted({*names[::2], *ALWAYS} & set(names))


def sweep(
    names: list[str],
    jobs: int,
    tell: Callable[[Outcome], None],
    checks: tuple[Check, ...] = CHECKS,
) -> list[Outcome]:
    """The outcomes of all classes, each in a child of its own."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    tiny_configs.modules_of_classes()  # read once, not in each child
    waiting, running, outcomes = list(names), {}, []
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            child, pipe = in_child(name, checks)
            running[child] = (name, pipe)
        child, _ = os.wait()
        name, pipe = running.pop(child)
        with os.fdopen(pipe) as file:
            text = file.read()
        outcome = Outcome(**json.loads(text)) if text else Outcome(name, reason="took too long")
        tell(outcome)
        outcomes.append(outcome)
    return sorted(outcomes, key=lambda each: each.name)


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as a page of documentation."""
    covered = [each for each in outcomes if each.covered]
    lines = [
        "# Model classes",
        "",
        f"Of the {len(outcomes)} classes that Transformers {transformers.__version__} registers a"
        f" mapping for, {len(covered)} are",
        "covered: a tiny model of each is loaded, saved and converted both ways, equal to",
        "Transformers bit for bit. Written by",
        "`python python/tests/class_sweep.py --table docs/model_classes.md`.",
        "",
        "| class | model_type | transforms | tensors | covered |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.name} | {each.model_type} | {each.transforms} | {each.tensors}"
        f" | {verdict(each)} |"
        for each in outcomes
    ]
    return "\n".join(lines) + "\n"


def verdict(outcome: Outcome) -> str:
    """Whether a class is covered, in words."""
    if not outcome.covered:
        return f"no: {outcome.reason.splitlines()[0].split(' | ')[0][:160]}"
    if "from_pretrained" not in outcome.checks:
        return "from the command line; the original does not load it back"
    return "yes"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", help="names with commas between (default: all registered)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=Path, help="write the page of documentation there")
    flags = parser.parse_args()
    names = flags.classes.split(",") if flags.classes else registered_classes()

    def tell(outcome: Outcome) -> None:
        word = "right" if outcome.covered else ("WRONG " if outcome.built else "not built ")
        print(f"{outcome.name}: {word}{outcome.reason[:400]} ({outcome.seconds} s)", flush=True)

    outcomes = sweep(names, flags.jobs, tell)
    print(f"{sum(each.covered for each in outcomes)} of {len(outcomes)} classes are covered")
    if flags.table:
        flags.table.write_text(table(outcomes), encoding="utf-8")
    return 1 if any(each.built and each.reason for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

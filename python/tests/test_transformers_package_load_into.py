"""`weightloom.torch.load_into` fills tensors that exist, and tells what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import MixtralForCausalLM
from transformers_cases import bits, quiet, tiny_model

import weightloom
from weightloom.torch import load_into

quiet()


class Tied(nn.Module):
    """Two layers, a buffer, and a head that is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 3)
        self.inner = nn.Linear(3, 5)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64))


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Other values for every tensor of the module."""
    generator = torch.Generator().manual_seed(3)
    state = {
        name: torch.randn(t.shape, generator=generator) for name, t in module.state_dict().items()
    }
    state["steps"] = torch.tensor([3, 1], dtype=torch.int64)
    del state["head.weight"]
    return state


@pytest.fixture
def module() -> Tied:
    torch.manual_seed(1)
    return Tied()


@pytest.fixture
def stored(module: Tied, tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    save_file(tensors_of(module), path)
    return path


def test_values_are_written_where_the_tensors_lie(module: Tied, stored: Path) -> None:
    before = dict(module.named_parameters())
    places = {name: p.data_ptr() for name, p in before.items()}
    view = module.inner.weight.detach()[1]
    report = load_into(module, stored)
    assert report.is_clean
    wanted = load_file(stored)
    for name, parameter in module.named_parameters():
        assert parameter is before[name]
        assert parameter.data_ptr() == places[name]
        assert parameter.requires_grad
        assert bits(parameter) == bits(wanted[name])
    assert module.head.weight is module.embed.weight
    assert torch.equal(view, wanted["inner.weight"][1])
    assert module.steps.tolist() == [3, 1]


def test_an_optimiser_goes_on(module: Tied, stored: Path) -> None:
    optimiser = torch.optim.SGD(module.parameters(), lr=1.0)
    load_into(module, stored)
    module.inner.weight.grad = torch.ones_like(module.inner.weight)
    optimiser.step()
    assert torch.equal(module.inner.weight.detach(), load_file(stored)["inner.weight"] - 1)


def test_strides_are_kept(stored: Path, module: Tied) -> None:
    module.inner.weight = nn.Parameter(torch.zeros(3, 5).t())
    load_into(module, stored)
    assert module.inner.weight.stride() == (1, 5)
    assert bits(module.inner.weight) == bits(load_file(stored)["inner.weight"])


def test_a_dict_of_tensors(module: Tied, stored: Path) -> None:
    state = {name: torch.zeros_like(t) for name, t in load_file(stored).items()}
    assert load_into(state, stored).is_clean
    for name, tensor in load_file(stored).items():
        assert bits(state[name]) == bits(tensor)


def test_everything_that_does_not_fit_is_told_at_once(module: Tied, tmp_path: Path) -> None:
    tensors = tensors_of(module)
    tensors["more.weight"] = torch.ones(1)
    tensors["inner.weight"] = torch.ones(5, 4)
    tensors["inner.bias"] = tensors["inner.bias"].to(torch.float16)
    del tensors["steps"]
    path = tmp_path / "weights.safetensors"
    save_file(tensors, path)
    before = {name: bits(t) for name, t in module.state_dict().items()}
    with pytest.raises(weightloom.PlanError) as caught:
        load_into(module, path)
    said = str(caught.value)
    assert "'steps' is missing" in said
    assert "'more.weight' has no place in the module" in said
    assert "'inner.weight' is [5, 4], but the module wants [5, 3]" in said
    assert "'inner.bias' is F16, but the module wants torch.float32" in said
    assert {name: bits(t) for name, t in module.state_dict().items()} == before

    report = load_into(module, path, strict=False)
    assert report.missing_keys == {"steps"}
    assert report.unexpected_keys == {"more.weight"}
    assert report.mismatched_keys == {("inner.weight", (5, 4), (5, 3))}
    assert len(report.error_msgs) == 1
    assert set(report.to_dict()) == {
        "missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs",
    }  # fmt: skip
    assert bits(module.embed.weight) == bits(tensors["embed.weight"])
    for name in ("inner.weight", "inner.bias", "steps"):
        assert bits(module.state_dict()[name]) == before[name]


def test_casts_when_asked_for(module: Tied, tmp_path: Path) -> None:
    tensors = {n: t.to(torch.bfloat16) if t.is_floating_point() else t
               for n, t in tensors_of(module).items()}  # fmt: skip
    path = tmp_path / "weights.safetensors"
    save_file(tensors, path)
    assert load_into(module, path, cast=True).is_clean
    assert module.inner.weight.dtype == torch.float32
    assert torch.equal(module.inner.weight.detach(), tensors["inner.weight"].float())


def test_a_tied_name_that_is_stored_too(module: Tied, tmp_path: Path) -> None:
    tensors = tensors_of(module)
    path = tmp_path / "weights.safetensors"
    save_file({**tensors, "head.weight": tensors["embed.weight"].clone()}, path)
    assert load_into(module, path).is_clean
    assert bits(module.head.weight) == bits(tensors["embed.weight"])

    save_file({**tensors, "head.weight": tensors["embed.weight"] + 1}, path)
    before = bits(module.inner.weight)
    with pytest.raises(weightloom.PlanError, match=r"'head\.weight' and 'embed\.weight' are one"):
        load_into(module, path)
    assert bits(module.inner.weight) == before


def test_only_the_tied_name_is_stored(module: Tied, tmp_path: Path) -> None:
    tensors = tensors_of(module)
    tensors["head.weight"] = tensors.pop("embed.weight")
    path = tmp_path / "weights.safetensors"
    save_file(tensors, path)
    assert load_into(module, path).is_clean
    assert bits(module.embed.weight) == bits(tensors["head.weight"])


def test_names_by_renames_and_a_selection(module: Tied, stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.safetensors"
    save_file({f"student.{n}": t for n, t in load_file(stored).items()}, path)
    assert load_into(module, path, rename={r"^student\.": ""}).is_clean
    report = load_into(module, stored, include=["inner.*"], strict=False)
    assert report.missing_keys == {"embed.weight", "head.weight", "steps"}


def test_experts_are_stacked_on_the_way(tmp_path: Path) -> None:
    source = tiny_model("MixtralForCausalLM")
    source.save_pretrained(tmp_path)
    model = MixtralForCausalLM(source.config)
    before = dict(model.named_parameters())
    assert load_into(model, tmp_path).is_clean
    for name, parameter in model.named_parameters():
        assert parameter is before[name]
        assert bits(parameter) == bits(source.state_dict()[name]), name

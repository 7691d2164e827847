"""`weightloom.transformers.from_pretrained` gives what the class's own gives."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    PreTrainedModel,
    conversion_mapping,
    core_model_loading,
)
from transformers_cases import CLASSES, SEED, bits, differences, quiet, tiny_model

import weightloom
import weightloom.transformers as ours

quiet()


@pytest.fixture(scope="module", params=CLASSES)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A class and its tiny checkpoint."""
    model = tiny_model(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    return type(model), folder


def load_both(model_class: Any, folder: Path, **kwargs: Any) -> tuple[Any, Any]:
    """(model, info) by Transformers and by Weightloom, each from the same seed."""
    torch.manual_seed(SEED)
    theirs = model_class.from_pretrained(folder, output_loading_info=True, **kwargs)
    torch.manual_seed(SEED)
    lenient = {"lenient": True} if theirs[1]["unexpected_keys"] else {}
    own = ours.from_pretrained(model_class, folder, output_loading_info=True, **lenient, **kwargs)
    return theirs, own


def assert_same(theirs: Any, own: Any) -> None:
    """Equal models and equal reports."""
    assert differences(own[0], theirs[0]) == []
    assert own[1] == theirs[1]


@pytest.mark.parametrize("dtype", ["auto", torch.bfloat16, torch.float16])
def test_a_model_is_the_one_that_transformers_loads(saved: Any, dtype: Any) -> None:
    model_class, folder = saved
    assert_same(*load_both(model_class, folder, dtype=dtype))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    tiny_model("LlamaForCausalLM").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def mixtral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In shards."""
    folder = tmp_path_factory.mktemp("mixtral")
    tiny_model("MixtralForCausalLM").save_pretrained(folder, max_shard_size="60KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    return folder


def test_shards_and_an_auto_class(mixtral: Path) -> None:
    assert_same(*load_both(AutoModelForCausalLM, mixtral))


def test_a_head_checkpoint_in_a_base_model(llama: Path) -> None:
    theirs, own = load_both(AutoModel, llama)
    assert theirs[1]["unexpected_keys"] == {"lm_head.weight"}
    assert_same(theirs, own)


def test_a_base_checkpoint_in_a_head_model(tmp_path: Path) -> None:
    tiny_model("LlamaModel").save_pretrained(tmp_path)
    theirs, own = load_both(transformers.LlamaForSequenceClassification, tmp_path)
    assert theirs[1]["missing_keys"] == {"score.weight"}
    assert_same(theirs, own)


def test_a_stacked_base_checkpoint_in_a_head_model(tmp_path: Path) -> None:
    tiny_model("MixtralModel").save_pretrained(tmp_path)
    assert_same(*load_both(transformers.MixtralForSequenceClassification, tmp_path))


def test_names_by_key_mapping(llama: Path, tmp_path: Path) -> None:
    _rewrite(llama, tmp_path, lambda name: f"old.{name}")
    assert_same(*load_both(AutoModelForCausalLM, tmp_path, key_mapping={r"^old\.": ""}))


class OwnModel(transformers.LlamaForCausalLM):
    """Code of one's own: only mappings that its user registered apply."""


def test_a_mapping_that_the_user_registered(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversion_mapping.get_checkpoint_conversion_mapping("llama")  # fills the registry
    monkeypatch.setattr(
        conversion_mapping,
        "_checkpoint_conversion_mapping_cache",
        dict(conversion_mapping._checkpoint_conversion_mapping_cache),
    )
    conversion_mapping.register_checkpoint_conversion_mapping(
        "OwnModel", [core_model_loading.WeightRenaming("final_scale", "model.norm")]
    )
    _rewrite(llama, tmp_path, lambda name: name.replace("model.norm", "final_scale"))
    theirs, own = load_both(OwnModel, tmp_path)
    assert theirs[1]["missing_keys"] == set()
    assert_same(theirs, own)


def test_old_names_of_norms(tmp_path: Path) -> None:
    source = tmp_path / "new"
    tiny_model("BertModel").save_pretrained(source)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def rename(name: str) -> str:
        for new, former in old.items():
            name = name.replace(new, former)
        return name

    _rewrite(source, tmp_path / "old", rename)
    assert "encoder.layer.0.output.LayerNorm.gamma" in load_file(tmp_path / "old/model.safetensors")
    assert_same(*load_both(AutoModel, tmp_path / "old"))


def test_a_checkpoint_that_is_in_the_runtime_layout_already(tmp_path: Path) -> None:
    tiny_model("MixtralForCausalLM").save_pretrained(tmp_path, save_original_format=False)
    assert_same(*load_both(AutoModelForCausalLM, tmp_path))


def test_a_dtype_of_the_checkpoint_that_no_cast_changes(llama: Path, tmp_path: Path) -> None:
    _rewrite(llama, tmp_path, lambda name: name, dtype=torch.bfloat16)
    assert_same(*load_both(AutoModelForCausalLM, tmp_path, dtype=torch.float32))
    assert_same(*load_both(AutoModelForCausalLM, tmp_path, dtype="auto"))


def test_mismatched_sizes_that_the_caller_lets_pass(llama: Path, tmp_path: Path) -> None:
    _rewrite(llama, tmp_path, lambda name: name)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:-1].contiguous()
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(weightloom.PlanError, match=r"1 tensor of another shape: 'lm_head.weight'"):
        ours.from_pretrained(AutoModelForCausalLM, tmp_path)
    assert_same(*load_both(AutoModelForCausalLM, tmp_path, ignore_mismatched_sizes=True))


def test_tied_weights_that_are_stored_twice_with_other_values(tmp_path: Path) -> None:
    model = tiny_model("BertForMaskedLM")
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (head,) = [n for n in ("cls.predictions.decoder.weight",) if n not in tensors]
    tensors[head] = tensors["bert.embeddings.word_embeddings.weight"] + 1
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    theirs, own = load_both(type(model), tmp_path)
    assert_same(theirs, own)
    state = own[0].state_dict()
    assert bits(state[head]) == bits(tensors[head])


def test_one_thread_when_the_environment_says_so(
    mixtral: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weightloom.transformers import _engine

    seen = []
    plain = _engine.LoadPlan.load

    def spy(self: Any, names: Any, run: Any) -> Any:
        seen.append(run.threads)
        return plain(self, names, run)

    monkeypatch.setattr(_engine.LoadPlan, "load", spy)
    monkeypatch.setenv("HF_DEACTIVATE_ASYNC_LOAD", "1")
    assert_same(*load_both(AutoModelForCausalLM, mixtral))
    assert seen == [1]


def test_parameters_are_tensors_of_their_own(mixtral: Path) -> None:
    model = ours.from_pretrained(AutoModelForCausalLM, mixtral)
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        storage = parameter.untyped_storage()
        assert storage.nbytes() == parameter.numel() * parameter.element_size(), name
        assert parameter.data_ptr() % 64 == 0
    pointers = {p.untyped_storage().data_ptr() for p in parameters.values()}
    assert len(pointers) == len(parameters)


def test_a_parameter_outlives_its_model(llama: Path) -> None:
    model = ours.from_pretrained(AutoModelForCausalLM, llama)
    kept = model.lm_head.weight
    expected = load_file(llama / "model.safetensors")["lm_head.weight"]
    del model
    assert bits(kept) == bits(expected)


def test_a_model_can_be_trained(llama: Path) -> None:
    model = ours.from_pretrained(AutoModelForCausalLM, llama).train()
    before = bits(model.lm_head.weight)
    step = torch.optim.SGD(model.parameters(), lr=1.0)
    tokens = torch.tensor([[1, 2, 3, 4]])
    model(input_ids=tokens, labels=tokens).loss.backward()
    step.step()
    assert bits(model.lm_head.weight) != before


def test_other_threads_load_as_they_did(llama: Path) -> None:
    """While one thread is inside a load of ours, the original is the original in another."""
    from weightloom.transformers import _seam

    results: list[PreTrainedModel] = []

    def load_plainly() -> None:
        results.append(AutoModelForCausalLM.from_pretrained(llama))

    with _seam.serving(_seam.Request()) as request:
        thread = threading.Thread(target=load_plainly)
        thread.start()
        thread.join()
    assert request.loads == 0
    assert differences(results[0], AutoModelForCausalLM.from_pretrained(llama)) == []


def test_offloading_to_disk(mixtral: Path, tmp_path: Path) -> None:
    """What was rearranged is written to the offload folder, the rest is read where it stands."""
    device_map = {"model.embed_tokens": "cpu", "model.layers": "disk", "model.norm": "cpu"}
    device_map |= {"model.rotary_emb": "cpu", "lm_head": "disk"}
    kwargs: dict[str, Any] = {"device_map": device_map}
    theirs = AutoModelForCausalLM.from_pretrained(
        mixtral, offload_folder=tmp_path / "theirs", **kwargs
    )
    own = ours.from_pretrained(
        AutoModelForCausalLM, mixtral, offload_folder=tmp_path / "ours", **kwargs
    )
    names = {p.name for p in (tmp_path / "theirs").iterdir()}
    assert {p.name for p in (tmp_path / "ours").iterdir()} == names
    for name in names:
        if name.endswith(".safetensors"):
            got, wanted = load_file(tmp_path / "ours" / name), load_file(tmp_path / "theirs" / name)
            assert {n: bits(t) for n, t in got.items()} == {n: bits(t) for n, t in wanted.items()}
    tokens = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        assert torch.equal(own(tokens).logits, theirs(tokens).logits)


def _rewrite(source: Path, target: Path, rename: Any, dtype: torch.dtype | None = None) -> None:
    """The checkpoint under other names, in one file."""
    target.mkdir(exist_ok=True)
    for path in source.glob("*.json"):
        if "index" not in path.name:
            (target / path.name).write_bytes(path.read_bytes())
    tensors = load_file(source / "model.safetensors")
    renamed = {rename(name): t.to(dtype) if dtype else t for name, t in tensors.items()}
    if dtype is not None:
        config = json.loads((target / "config.json").read_text())
        config["dtype"] = str(dtype).removeprefix("torch.")
        (target / "config.json").write_text(json.dumps(config))
    save_file(renamed, target / "model.safetensors", metadata={"format": "pt"})

"""Norms as an adapter of PEFT: what other programs read, and PEFT itself where it is installed."""

from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.errors import InputError
from reconstruct.runs.rebuild import safetensors, write_adapter
from tests.constructions.targets import mlp


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("adapter") / "out"
    rc.run(mlp([3, 4, 2], 0), out, domain=rc.Box(-1, 1))
    return out


def tensors(content: bytes) -> dict[str, Any]:
    """A file of safetensors, read as its description says."""
    (length,) = struct.unpack("<Q", content[:8])
    assert length % 8 == 0
    header, numbers = json.loads(content[8 : 8 + length]), content[8 + length :]
    del header["__metadata__"]
    ends = [0]
    found = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        assert entry["dtype"] == "F64" and start == ends[-1]  # no holes between tensors
        ends.append(end)
        found[name] = np.frombuffer(numbers[start:end], "<f8").reshape(entry["shape"])
    assert ends[-1] == len(numbers)
    return found


def test_a_file_holds_the_numbers_that_went_in() -> None:
    rng = np.random.default_rng(0)
    arrays = {"a.weight": rng.normal(size=5), "ß": rng.normal(size=(2, 3)).T, "none": np.empty(0)}
    found = tensors(safetensors(arrays))
    assert list(found) == list(arrays)
    for name, values in arrays.items():
        assert np.array_equal(found[name], values) and found[name].shape == values.shape


def test_an_adapter_has_the_norms_of_the_run_under_the_names_of_peft(run, tmp_path) -> None:
    write_adapter(run, tmp_path / "adapter")
    norms = np.load(run / "norms.npz")
    state = tensors((tmp_path / "adapter" / "norms.safetensors").read_bytes())
    assert set(state) == {name for name in norms.files if not name.endswith(".eps")}
    assert all(np.array_equal(state[name], norms[name]) for name in state)
    adapter = tensors((tmp_path / "adapter" / "adapter_model.safetensors").read_bytes())
    key = "base_model.model.layer1.norm1.ln_tuning_layers.weight"
    assert len(adapter) == len(state)
    assert np.array_equal(adapter[key], norms["layer1.norm1.weight"])
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text("utf-8"))
    assert config["peft_type"] == "LN_TUNING" and "layer1.norm1" in config["target_modules"]


def test_what_is_no_run_is_refused_and_nothing_written(tmp_path) -> None:
    with pytest.raises(InputError, match=r"norms\.npz: there is no such file"):
        write_adapter(tmp_path, tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


@pytest.mark.filterwarnings("ignore")
def test_peft_turns_the_frozen_module_into_the_target(run, tmp_path) -> None:
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    write_adapter(run, tmp_path / "adapter")
    target = mlp([3, 4, 2], 0)
    module = rc.to_torch(rc.draw(target, seed=0).network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT knows LayerNorm by the classes of transformers alone
        tuned = peft.PeftModel.from_pretrained(module, str(tmp_path / "adapter")).eval()
    x = np.random.default_rng(1).uniform(-1, 1, (8, 3))
    found = tuned(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(found, target(x), atol=1e-12)

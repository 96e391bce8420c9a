"""A network of which only the norms were trained, exported twice, read back and certified."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch

from reconstruct.bridge.from_torch import from_torch
from reconstruct.bridge.to_torch import norm_layers
from reconstruct.cli import main
from reconstruct.formats import load, save
from reconstruct.training import Schedule, load_data, mlp, resnet, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of `reconstruct train` on two classes of points, and the data's file."""
    folder = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    np.savez(folder / "data.npz", x=rng.random((60, 4)) + 0.5 * y[:, None], y=y)
    words = ["--model", "mlp", "--depth", "2", "--width", "12", "--epochs", "6", "--batch", "15"]
    code = main(
        ["train", "--data", str(folder / "data.npz"), "-o", str(folder / "out"), "--quiet", *words]
    )
    assert code == 0
    return folder


def rebuilt_module(folder):
    """The module again: drawn from its seed, norms from norms-0.npz by load_state_dict."""
    module = mlp(2, 12, load_data(folder / "data.npz"), seed=0)
    with np.load(folder / "out" / "norms-0.npz") as norms:
        state = {n: torch.from_numpy(norms[n]) for n in norms.files if not n.endswith(".eps")}
        found = module.load_state_dict(state, strict=False)
        assert not found.unexpected_keys
        assert all(norms[f"{name}.eps"] == 1e-5 for name in norm_layers(module))
    return module.double().eval()


def test_the_written_network_is_the_trained_module(trained):
    module = rebuilt_module(trained)
    network = load(trained / "out" / "network-0.onnx")
    x = np.random.default_rng(1).random((30, 4))
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(network(x), expected, rtol=0, atol=1e-13)
    report = json.loads((trained / "out" / "report.json").read_text())
    assert report["notes"] == []
    data = load_data(trained / "data.npz")
    right = network(data.test_x.astype(np.float64)).argmax(axis=1) == data.test_y
    assert report["runs"][0]["accuracy"] == pytest.approx(np.mean(right))


def exported_by_torch(module, shape, path):
    """What torch's own exporter makes of the module: norms behind convolutions are folded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that exporter is the older of torch's two
        example = (torch.zeros(1, *shape).double(),)
        torch.onnx.export(module, example, str(path), dynamo=False, input_names=["x"])


def test_verify_certifies_it_against_what_torch_itself_exports(trained, tmp_path, capsys):
    """torch's exporter rounds eps to float32, which is all that the two files differ by."""
    module = rebuilt_module(trained)
    path = tmp_path / "by-torch.onnx"
    exported_by_torch(module, (4,), path)
    written = trained / "out" / "network-0.onnx"
    words = ["verify", str(written), str(path), "--domain", "0,2", "--json", "--samples", "100"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "certified"
    assert report["error"]["certified_bound"] < 1e-8

    with torch.no_grad():
        norm_layers(module)["2"].weight[0] += 0.01
    exported_by_torch(module, (4,), path)
    assert main(words) == 1


def test_a_residual_network_of_which_only_the_norms_were_trained_is_certified(tmp_path, capsys):
    """Norms kept on one side, folded into the convolutions by torch on the other."""
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    x = rng.random((24, 1, 4, 4)) + 0.5 * y[:, None, None, None]
    np.savez(tmp_path / "data.npz", x=x, y=y)
    data = load_data(tmp_path / "data.npz")
    module = resnet(8, 2, data, seed=0)
    train(module, data, "norms", Schedule(epochs=2, batch=6))
    ours, theirs = tmp_path / "ours.onnx", tmp_path / "by-torch.onnx"
    save(from_torch(module.double(), data.test_x[:1]), ours)
    exported_by_torch(module, (1, 4, 4), theirs)
    words = ["verify", str(ours), str(theirs), "--domain", "0,1", "--json", "--samples", "50"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "certified"
    assert report["error"]["certified_bound"] < 1e-9

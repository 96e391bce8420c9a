"""A whole network: load a target, draw a frozen network, set its norms, certify, save."""

import tempfile
from pathlib import Path

import reconstruct as rc
from reconstruct.demo import digits

shipped = digits()  # in your program: target = rc.load("target.onnx")
target = shipped.target
print(target)

frozen = rc.draw(target, construction=rc.Wide(ratio=1.5), seed=0)
print(f"before: {100 * shipped.accuracy(frozen.network):.1f} % of the digits recognised")

result = rc.reconstruct(target, frozen, domain=rc.Box(0, 1))
print(result)
print(f"after:  {100 * shipped.accuracy(result.network):.1f} %")
assert shipped.accuracy(result.network) == shipped.accuracy(target)

for layer in result.layers:
    print(f"  map {layer.index}: {layer.rows}×{layer.cols} in {layer.width} hidden neurons")

certificate = rc.certify(target, result.network, domain=result.domain)
print(certificate)
assert certificate.verdict.value == "certified"
assert certificate.bound < 1e-9

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "network.onnx"
    rc.save(result.network, path)
    again = rc.load(path)
    assert (again(shipped.images) == result.network(shipped.images)).all()
    print(f"saved and read back: {path.name}")

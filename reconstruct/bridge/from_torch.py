"""A torch module as a network of this tool.

torch.export gives the graph of torch's own operators for the example, in which every norm is
still there, with the names of the module's state dict. (torch's default ONNX exporter folds the
norm of an evaluated module into the layer ahead of it, and torch.fx alone cannot trace modules
that look at shapes.) Each operator is written as ONNX by one rule (`aten`), and our reader of
ONNX makes the network: shapes, convolutions and pooling mean the same as in any file.
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.bridge import torch_module
from reconstruct.bridge.aten import RULES, ModuleGraph, OperatorCall
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import Around, Budget, read_limit
from reconstruct.formats.onnx.model import import_onnx
from reconstruct.formats.onnx.read import read_onnx
from reconstruct.networks import Network

if TYPE_CHECKING:
    import torch


def from_torch(module: torch.nn.Module, example: Any) -> Network:
    """The function of `module` in evaluation mode, as a network.

    `example` is an input as the module takes it, a tensor or an array whose first dimension is
    the batch; its values do not matter, its shape does. Norm layers keep their names from the
    state dict. What was read is evaluated at the example and compared with the module.
    """
    torch = torch_module("reading a torch module")
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            f"a torch.nn.Module is needed, but this is of the type {type(module).__name__}; a "
            f"file of weights holds no module: build it in Python and load the weights into it"
        )
    frozen = copy.deepcopy(module).eval()
    rows = _rows(torch, frozen, example)
    program = _exported(torch, frozen, rows)
    kind = rows.detach().numpy().dtype
    graph = ModuleGraph(import_onnx("reading a torch module"), kind, set())
    names = _constants(program, graph)
    source = _walk(program, graph, names)
    graph.shapes[source] = tuple(rows.shape[1:])
    (end,) = [node.args[0] for node in program.graph.nodes if node.op == "output"]
    if len(end) != 1:
        raise UnsupportedError(f"a module of one output is needed, but this has {len(end)}")
    result = graph.node("Identity", [names[str(end[0].name)]], graph.fresh("result"))
    graph.outputs[result] = None
    content = graph.model(source).SerializeToString()
    network = read_onnx(content, Around(Path(), Budget(read_limit())))
    # the eps of a norm need not be a float32 number as in ONNX
    norms: dict[str, Any] = {name: network.node(name).op for name in graph.eps}
    network = network.with_ops(
        {name: replace(op, eps=graph.eps[name]) for name, op in norms.items()}
    )
    network = replace(network, metadata={**network.metadata, "module": type(module).__name__})
    _compare(torch, frozen, network, rows)
    return network


def _rows(torch: Any, module: Any, example: Any) -> Any:
    recurrent = next((m for m in module.modules() if isinstance(m, torch.nn.RNNBase)), None)
    if recurrent is not None:
        raise UnsupportedError(
            f"a fixed graph of layers is needed, but the module holds a layer "
            f"{type(recurrent).__name__}, which loops over a sequence; write out its steps for a "
            "sequence of one length"
        )
    elsewhere = {p.device.type for p in module.parameters()} - {"cpu"}
    if elsewhere:
        raise InputError(
            f"a module on the CPU is needed, but this one has parameters on {elsewhere.pop()}; "
            "give module.cpu() (reconstruct works on processors alone)"
        )
    kinds = {p.dtype for p in module.parameters() if p.is_floating_point()}
    if len(kinds) != 1 or not kinds <= {torch.float32, torch.float64}:
        raise UnsupportedError(
            f"a module with all parameters in float32 or all in float64 is needed, but these have "
            f"{', '.join(sorted(map(str, kinds))) or 'none'}; give module.float()"
        )
    try:
        rows = torch.as_tensor(example).to(kinds.pop())
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"one tensor or array is needed as the example, but this is of the type "
            f"{type(example).__name__}; a module of several inputs can take them as parts of one"
        ) from None
    if rows.ndim < 2 or not len(rows):
        raise InputError(
            f"an example with a batch in front is needed (N × input shape, N ≥ 1), but its shape "
            f"is {tuple(rows.shape)}; use example[None] for a single one"
        )
    rows = torch.cat([rows[:1], rows[:1]])  # torch would take a batch of one for a constant
    try:
        with torch.no_grad():
            module(rows)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputError(
            f"an example that the module takes is needed, but of two inputs of the shape "
            f"{tuple(rows.shape[1:])} it says: {_first_line(error)}; try module(example) first"
        ) from None
    return rows


def _exported(torch: Any, module: Any, rows: Any) -> Any:
    """The functional graph: no value is overwritten in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's remarks about its own internals
            program = torch.export.export(module, (rows,))
            return program if _plain(program) else program.run_decompositions({})
    except Exception as error:  # torch.export raises many kinds of its own
        raise UnsupportedError(
            f"torch.export cannot trace {type(module).__name__} ({type(error).__name__}: "
            f"{_first_line(error)}); the module must be one fixed graph from one tensor to one "
            f"tensor"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or "no reason given"


def _plain(program: Any) -> bool:
    """Whether no value is overwritten and every operator is known as it is: to take a program
    apart further is most of the time of reading it."""
    calls = (node.target for node in program.graph.nodes if node.op == "call_function")
    named = (call for call in calls if call is not operator.getitem)
    return all(_rule(call) is not None and not call._schema.is_mutable for call in named)


def _rule(call: Any) -> Any:
    schema = getattr(call, "_schema", None)
    return None if schema is None else RULES.get(schema.name.removeprefix("aten::"))


def _constants(program: Any, graph: ModuleGraph) -> dict[str, str]:
    """Parameters and buffers as constants of the graph, by the name of their placeholder."""
    names: dict[str, str] = {}
    held = {**program.state_dict, **program.constants}
    for spec in program.graph_signature.input_specs:
        if spec.target is None or spec.target not in held:
            continue
        value = held[spec.target].detach().numpy()
        kind = None if value.dtype.kind == "f" else value.dtype
        names[spec.arg.name] = graph.constant(spec.target, value, kind)
    return names


def _walk(program: Any, graph: ModuleGraph, names: dict[str, str]) -> str:
    """Write every operator; the name of the input."""
    source = ""
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name not in names:
            if source:
                raise UnsupportedError("a module of one input is needed, but this one has more")
            source = names[node.name] = graph.fresh(node.name)
        elif node.op == "call_function" and node.target is operator.getitem:
            names[node.name] = names[node.args[0].name]
        elif node.op == "call_function":
            call = _call(node, names, graph)
            rule = _rule(node.target)
            if rule is None:
                known = ", ".join(name for name in RULES if not name.startswith("_"))
                raise call.refuse(f"is not supported; supported are torch's {known}")
            names[node.name] = rule(call)
    return source


def _call(node: Any, names: Mapping[str, str], graph: ModuleGraph) -> OperatorCall:
    """The operator's arguments by their names, defaults included."""
    given: dict[str, Any] = {}
    for i, argument in enumerate(node.target._schema.arguments):
        if i < len(node.args):
            given[argument.name] = node.args[i]
        else:
            given[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    shapes = {key: _shape(v) for key, v in given.items() if hasattr(v, "meta")}
    named = {key: _named(value, names) for key, value in given.items()}
    target = node.target._schema.name.removeprefix("aten::")
    layer = next(
        (named[k].rpartition(".")[0] for k in ("weight", "running_mean") if named.get(k)), ""
    )
    return OperatorCall(graph, target, layer or node.name, named, _shape(node), shapes)


def _named(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_named(item, names) for item in value]
    return names[value.name] if hasattr(value, "meta") else value


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple(int(n) for n in (value[0] if isinstance(value, tuple) else value).shape)


def _compare(torch: Any, module: Any, network: Network, rows: Any) -> None:
    """A module that depends on the values of its input, or a rule that is wrong, shows here."""
    with torch.no_grad():
        expected: NDArray[Any] = module(rows).numpy().reshape(len(rows), -1)
    found = network(rows.numpy().reshape(len(rows), -1), dtype=expected.dtype)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    worst = float(np.max(np.abs(found - expected), initial=0.0)) / scale
    if not worst <= {"float32": 1e-3, "float64": 1e-8}[expected.dtype.name]:
        raise UnsupportedError(
            f"the network read from {type(module).__name__} differs from it by {worst:.1e} at the "
            f"example, more than rounding explains; this module is not read correctly"
        )

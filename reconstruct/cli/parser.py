"""The grammar of the command line: one table of options, one table of commands."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from difflib import get_close_matches
from typing import Any, NoReturn

from reconstruct.version import __version__

# Each word: what stands for its value (`flag` where it has none, `a|b` where it is one of these, *
# where it may be given again), its type if it is no text, `= default`, and after `: ` what it
# means. A command in front of a word says what it means in that command alone.
OPTIONS = {
    "target": "TARGET: the network g: .onnx, .npz or .nnet",
    "candidate": "CANDIDATE: the network to compare with it",
    "frozen": "FROZEN: two frozen linear layers, norms, one activation between",
    "network": "NETWORK: .onnx, .npz or .nnet",
    "path": "OUT: what a run wrote",
    "check path": "OUT|certificate.json: what a run wrote",
    "name": "NAME: sparsity, width, depth, conditioning, stacked, blocks, live",
    "--domain": "DOMAIN: box on which the claim holds: LO,HI for all inputs, lo1,lo2,…:hi1,hi2,…, "
    "a .vnnlib file, an .npz with lo and hi, an .npz with x (data: these inputs alone), or a "
    "folder of labelled images (data, too); a run without it takes -1,1",
    "--split": "train|test: images of a folder: those to train or to test on (test)",
    "--count": "N int: as many images of the folder, drawn by a fixed seed (all)",
    "pairs --count": "N int = 30: pairs to make (30)",
    "--normalise": "MEAN:STD: what the network takes for pixels in [0, 1], one number or one a "
    "channel",
    "-o": "OUT: directory to write",
    "demo -o": "OUT = demo-out: directory to write",
    "--radius": "R float: boxes of this radius around the inputs of data",
    "--slack": "S float: widen ranges seen on data by 1 + S (default 1)",
    "--guard": "flag: write network_guarded.onnx too (always for data)",
    "--memory": "SIZE: memory that the run may take, such as 2G: refused beforehand if it needs "
    "more (what the machine has)",
    "--time-limit": "SECONDS float: for everything: what is solved by then is kept for --resume, "
    "a proof stays undecided",
    "verify --time-limit": "SECONDS float: for everything (without it: 90 for search and joint "
    "bound, any for the other proofs)",
    "--frozen": "FILE: bring your own instead of drawing one",
    "rebuild --frozen": "FILE: the frozen network, if it was brought and not drawn",
    "--ratio": "RATIO ratio: hidden neurons per equation (default 1.5), or auto: as "
    "--float32-error needs",
    "inspect --ratio": "RATIO float = 1.5: neurons per equation (1.5)",
    "--float32-error": "E float: with --ratio auto: the float32 error that may be expected (a "
    "prediction, no bound)",
    "--seed": "SEED int: seed of the draw (default 0)",
    "demo --seed": "SEED int = 0: seed of the draw (default 0)",
    "pairs --seed": "SEED int = 0: seed of the draw (default 0)",
    "--weights": "gaussian|uniform|kaiming|rademacher|int8: distribution of the weights (default "
    "gaussian)",
    "--density": "P float: keep each weight with chance P (default 1)",
    "--activation": "relu|leakyrelu|elu|selu|relu6|hardtanh|gelu|silu|softplus|tanh: activation "
    "inside the frozen sites (default relu)",
    "--construction": "wide|grouped|factored|deep|stacked|fitted = wide: of each map: wide (two "
    "layers), grouped (the same in groups, for large networks), factored (by its rank), deep "
    "(narrow layers with skip connections), stacked (without these), fitted (fewer units than "
    "equations: an approximation) (wide)",
    "--norm": "batch|layer|rms: norms of wide frozen layers: batch (statistics as constants), "
    "layer or rms (live); by default live ahead of the target's own live norms, and constants "
    "elsewhere",
    "train --norm": "batch|layer = batch: of an mlp (batch)",
    "--rank": "R int: rank for factored (default: exact)",
    "--block": "K int: block size for grouped, deep",
    "--layers": "L int: hidden layers per map for stacked",
    "--bounds": "interval|crown|adaptive: how to bound the target's values, from fast to tight: "
    "interval arithmetic, crown (linear relaxations), adaptive (crown on parts of the domain, "
    "which is split where that helps; with more than 16 inputs the same as crown); tighter bounds "
    "give smaller shifts (adaptive, with more than 8 inputs crown)",
    "--bounds-seconds": "T float: time that adaptive bounds may take",
    "--solver": "NAME = auto: direct (factorises each system), cg (conjugate gradients, for large "
    "ones), exact (rational numbers, for small ones), or auto: by size (auto)",
    "--dtype": "float64|float32 = float64: precision in which gammas and betas are written; with "
    "float32 the headline is about evaluation in float32 (float64)",
    "--nnet-header": "flag: fold the ranges of a .nnet header in",
    "--samples": "N int: inputs to try (10000; 1000 where the certificate excludes a difference)",
    "--tolerance": "TOLERANCE float: difference that counts (1e-6 × scale)",
    "export --tolerance": "TOLERANCE float: difference that counts (needed with networks)",
    "--resume": "flag: go on where it was interrupted",
    "--force": "flag: overwrite the results in OUT",
    "--json": "flag: print the report as JSON on stdout",
    "--unchecked-reading": "flag: read ONNX files that no other program can evaluate; the verdict "
    "says so",
    "--quiet": "flag: the verdict line alone",
    "--target": "FILE: where the target is, if not in OUT; the same bytes",
    "--candidate": "FILE: where the other network is, if not in OUT; the same bytes",
    "--property": "FILE.vnnlib: domain and tolerance from a VNN-LIB property",
    "--instances": "FILE.csv: a benchmark's list of such properties, instead of networks",
    "--timeout": "S float: seconds for each instance (100)",
    "--sizes": "2-4-1,3-6-6-2,…: sizes of the targets, from inputs to outputs (a ladder)",
    "--peft": "OUT: a run whose norms become an adapter of PEFT, instead of networks",
    "--update": "TUNED: the target after fine-tuning: which part the norms express",
    "--trusted": "flag: say what has to be right for an ACCEPTED",
    "--cnn": "flag: a convolutional network with norms, a skip and pooling",
    "--only": "NAME*: this statement in full",
    "--thorough": "flag: larger sizes (minutes)",
    "-v": "flag: a line for each step that is done, with its time",
    "prove -v": "flag: every check of every statement",
    "--list": "flag: names and claims, nothing is run",
    "--data": "DATA = digits: digits, an .npz with x and y, or a folder of images",
    "--model": "resnet|vgg|mlp = resnet: (resnet)",
    "--depth": "DEPTH int: layers (resnet 14, vgg 11; mlp: hidden, 2)",
    "--width": "WIDTH int: channels of the first stage (16; mlp 256)",
    "--gamma": "uniform|ones = uniform: (uniform)",
    "--tune": "norms|output|norms+output|all|random = norms: what is trained (norms); random: as "
    "many weights as the norms have parameters",
    "--epochs": "EPOCHS int = 30: (30)",
    "--batch": "BATCH int = 128: (128)",
    "--rate": "RATE float = 0.1: first step, later a tenth (0.1)",
    "--momentum": "MOMENTUM float = 0.9: (0.9)",
    "--decay": "DECAY float = 1e-4: weight decay (1e-4)",
    "train --seeds": "S,S,… = 0: one training each (0)",
    "study --seeds": "N int: trials for each point of the grid",
    "--grid": "NAME=V,V,…*: values of one parameter; repeatable",
    "--jobs": "N int = 1: processes (default 1)",
}

LONG = {"-o": "--output", "-v": "--verbose"}
NEEDED = {"-o!": "-o OUT", "--domain!": "--domain DOMAIN"}  # as the line of usage has them
DOMAIN = "--domain --split --count --normalise --radius"
SAID = "--json --quiet"
WORK = f"{SAID} -v"  # what takes long may say more
WRITTEN = f"--force {SAID}"
WORKED = f"--force {WORK}"
READ = "--unchecked-reading"

# Each command with its arguments (? where they may be left out): what it does, and its options
# (! where they are required), in groups.
COMMANDS = {
    "run target": (
        "reconstruct a target network and write everything into OUT",
        f"-o! {DOMAIN} --slack --guard --memory --time-limit | the frozen network: --frozen "
        "--ratio --float32-error --seed --weights --density --activation | how to reconstruct: "
        "--construction --norm --rank --block --layers --bounds --bounds-seconds --solver --dtype "
        f"--nnet-header | checking and output: --samples --tolerance --resume {READ} {WORKED}",
    ),
    "verify target? candidate?": (
        "certify or refute that two networks agree on a box",
        f"{DOMAIN} --property --instances --timeout --bounds --bounds-seconds --samples "
        f"--tolerance --time-limit --nnet-header -o {READ} {WORKED}",
    ),
    "check path": (
        "re-check a certificate, trusting nothing of the solver",
        f"--target --candidate --trusted {READ} {WORK}",
    ),
    "inspect network": (
        "show a network and what each construction would cost",
        f"--ratio --rank --block --density --nnet-header {SAID}",
    ),
    "demo": (
        "turn a random network into the shipped digits classifier",
        f"-o --seed --cnn {WORKED}",
    ),
    "prove": (
        "check every statement that the tool rests on, and say what each check is worth",
        "--json --only --thorough -v --list",
    ),
    "reach frozen target": (
        "prove how close no norms of a frozen network come to an affine map",
        f"--domain! --update -o {WRITTEN}",
    ),
    "report path": ("rebuild report.html from the files of a run", SAID),
    "rebuild path": (
        "write network.onnx of a run again from its seed and norms, the same bits",
        f"--target --frozen {SAID}",
    ),
    "export target? candidate?": (
        "write what other tools read: VNN-LIB properties of a difference, or norms for PEFT",
        f"-o! --domain --tolerance --peft {WRITTEN}",
    ),
    "pairs": (
        "make pairs of networks with known answers, for those who write verifiers",
        f"-o! --sizes --count --seed {WORKED}",
    ),
    "train": (
        "train nothing but the norms of a random network",
        f"-o! --data --resume {WORKED} | the network: --model --depth --width --norm --gamma "
        "| the training: --tune --epochs --batch --rate --momentum --decay --seeds",
    ),
    "study name": (
        "answer a question about norm tuning by many trials",
        f"-o! --grid --seeds --jobs --resume {WORKED}",
    ),
}


def ratio(text: str) -> float | str:
    """A number, or the word auto."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or auto, but is {text!r}") from None


def settings(command: str, word: str) -> dict[str, Any]:
    """What argparse is told of a word in a command."""
    spec, _, text = OPTIONS.get(f"{command} {word}", OPTIONS.get(word, "")).partition(": ")
    value, _, default = spec.partition(" = ")
    name, _, kind = value.partition(" ")
    if name == "flag":
        return {"action": "store_true", "help": text}
    told: dict[str, Any] = {"help": text, "default": default or None}
    told["type"] = {"int": int, "float": float, "ratio": ratio}.get(kind, str)
    if "|" in name and word.startswith("-"):
        return told | {"choices": name.split("|")}
    return told | {"metavar": name.rstrip("*")} | ({"action": "append"} if "*" in name else {})


class Parser(argparse.ArgumentParser):
    """Says what may have been meant where a word is not known."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*?)'|unrecognized arguments: ([^\s=]+)", message)
        specs = " ".join(row.partition(": ")[0].replace("|", " ") for row in OPTIONS.values())
        known = [*" ".join((*COMMANDS, *OPTIONS)).split(), *specs.split()]
        near = get_close_matches(wrong[1] or wrong[2], known, 1) if wrong else []
        meant = f"did you mean {near[0]}?" if wrong and near and near[0] != wrong[2] else None
        self.exit(2, f"{self.prog}: {message}; {meant or f'{self.prog} --help lists them'}\n")


class Completion(argparse.Action):
    """Prints what a shell needs to complete commands and options, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> NoReturn:
        try:
            shtab: Any = importlib.import_module("shtab")
        except ImportError:
            parser.error("completion needs the package shtab; install it with pip install shtab")
        sys.stdout.write(shtab.complete(parser, rest[1]) + "\n")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """The parser of `reconstruct`; `cli/commands.py` has a function for each command."""
    parser = Parser(
        prog="reconstruct",
        description="Rebuild a ReLU network inside a random frozen one by its norm parameters "
        "alone, and prove that the two agree.",
    )
    parser.add_argument("--version", action="version", version=f"reconstruct {__version__}")
    parser.add_argument(
        "--print-completion",
        action=Completion,
        choices=("bash", "zsh", "tcsh"),
        help="what that shell needs to complete commands and options",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for key, (text, options) in COMMANDS.items():
        name, *arguments = key.split()
        needed = [NEEDED[word] for word in options.split() if word in NEEDED]
        named = (word.rstrip("?").upper() for word in arguments)
        usage = " ".join(["%(prog)s", *named, *needed, "[options]"])
        about = f"{text[0].upper()}{text[1:]}."
        command = commands.add_parser(name, help=text, description=about, usage=usage)
        for word in arguments:
            told = settings(name, word.rstrip("?")) | ({"nargs": "?"} if "?" in word else {})
            command.add_argument(word.rstrip("?"), **told)
        for part in options.split(" | "):
            title, found, listed = part.rpartition(": ")
            group = command.add_argument_group(title) if found else command
            for word in listed.split():
                flag = word.rstrip("!")
                told = settings(name, flag) | ({"required": True} if word != flag else {})
                group.add_argument(*filter(None, (flag, LONG.get(flag))), **told)
    return parser

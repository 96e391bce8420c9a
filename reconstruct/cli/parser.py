"""The grammar of the command line: one table of options, one table of commands."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from difflib import get_close_matches
from typing import Any, NoReturn

from reconstruct.version import __version__


def ratio(text: str) -> float | str:
    """A number, or the word auto."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or auto, but is {text!r}") from None


def _flag(text: str) -> dict[str, Any]:
    return {"action": "store_true", "help": text}


def _word(text: str, metavar: str, kind: Any = str, **more: Any) -> dict[str, Any]:
    return {"metavar": metavar, "type": kind, "help": text, **more}


def _choice(text: str, choices: str, **more: Any) -> dict[str, Any]:
    return {"choices": choices.split(), "help": text, **more}


OPTIONS: dict[str, dict[str, Any]] = {
    "target": _word("the network g: .onnx, .npz or .nnet", "TARGET"),
    "candidate": _word("the network to compare with it", "CANDIDATE"),
    "frozen": _word("two frozen linear layers, norms, one activation between", "FROZEN"),
    "network": _word(".onnx, .npz or .nnet", "NETWORK"),
    "path": _word("what a run wrote", "OUT"),
    "name": _word("sparsity, width, depth, conditioning, stacked, blocks, live", "NAME"),
    "--domain": {
        "help": "box on which the claim holds: LO,HI for all inputs, lo1,lo2,…:hi1,hi2,…, a "
        ".vnnlib file, an .npz with lo and hi, an .npz with x (data: these inputs alone), or a "
        "folder of labelled images (data, too)"
    },
    "--split": _choice("images of a folder: those to train or to test on (test)", "train test"),
    "--count": _word("as many images of the folder, drawn by a fixed seed (all)", "N", int),
    "--normalise": _word(
        "what the network takes for pixels in [0, 1], one number or one a channel", "MEAN:STD"
    ),
    "-o": _word("directory to write", "OUT"),
    "--radius": _word("boxes of this radius around the inputs of data", "R", float),
    "--slack": _word("widen ranges seen on data by 1 + S (default 1)", "S", float),
    "--guard": _flag("write network_guarded.onnx too (always for data)"),
    "--memory": _word(
        "memory that the run may take, such as 2G: refused beforehand if it needs more (what the "
        "machine has)",
        "SIZE",
    ),
    "--time-limit": _word(
        "for everything: what is solved by then is kept for --resume, a proof stays undecided",
        "SECONDS",
        float,
    ),
    "--frozen": _word("bring your own instead of drawing one", "FILE"),
    "--ratio": {
        "type": ratio,
        "help": "hidden neurons per equation (default 1.5), or auto: as --float32-error needs",
    },
    "--float32-error": _word(
        "with --ratio auto: the float32 error that may be expected (a prediction, no bound)",
        "E",
        float,
    ),
    "--seed": {"type": int, "help": "seed of the draw (default 0)"},
    "--weights": _choice(
        "distribution of the weights (default gaussian)", "gaussian uniform kaiming rademacher int8"
    ),
    "--density": _word("keep each weight with chance P (default 1)", "P", float),
    "--activation": _choice(
        "activation inside the frozen sites (default relu)",
        "relu leakyrelu elu selu relu6 hardtanh gelu silu softplus tanh",
    ),
    "--construction": _choice(
        "of each map: wide (two layers), grouped (the same in groups, for large networks), "
        "factored (by its rank), deep (narrow layers with skip connections), stacked (without "
        "these), fitted (fewer units than equations: an approximation) (wide)",
        "wide grouped factored deep stacked fitted",
        default="wide",
    ),
    "--norm": _choice(
        "norms of wide frozen layers: batch (statistics as constants), layer or rms (live); by "
        "default live ahead of the target's own live norms, and constants elsewhere",
        "batch layer rms",
    ),
    "--rank": _word("rank for factored (default: exact)", "R", int),
    "--block": _word("block size for grouped, deep", "K", int),
    "--layers": _word("hidden layers per map for stacked", "L", int),
    "--bounds": _choice(
        "how to bound the target's values, from fast to tight: interval arithmetic, crown (linear "
        "relaxations), adaptive (crown on parts of the domain, which is split where that helps; "
        "with more than 16 inputs the same as crown); tighter bounds give smaller shifts "
        "(adaptive, with more than 8 inputs crown)",
        "interval crown adaptive",
    ),
    "--bounds-seconds": _word("time that adaptive bounds may take", "T", float),
    "--solver": _word(
        "direct (factorises each system), cg (conjugate gradients, for large ones), exact "
        "(rational numbers, for small ones), or auto: by size (auto)",
        "NAME",
        default="auto",
    ),
    "--dtype": _choice(
        "precision in which gammas and betas are written; with float32 the headline is about "
        "evaluation in float32 (float64)",
        "float64 float32",
        default="float64",
    ),
    "--nnet-header": _flag("fold the ranges of a .nnet header in"),
    "--samples": _word(
        "inputs to try (10000; 1000 where the certificate excludes a difference)", "N", int
    ),
    "--tolerance": {"type": float, "help": "difference that counts (1e-6 × scale)"},
    "--resume": _flag("go on where it was interrupted"),
    "--force": _flag("overwrite the results in OUT"),
    "--json": _flag("print the report as JSON on stdout"),
    "--unchecked-reading": _flag(
        "read ONNX files that no other program can evaluate; the verdict says so"
    ),
    "--quiet": _flag("the verdict line alone"),
    "--target": _word("where the target is, if not in OUT; the same bytes", "FILE"),
    "--candidate": _word("where the other network is, if not in OUT; the same bytes", "FILE"),
    "--property": _word("domain and tolerance from a VNN-LIB property", "FILE.vnnlib"),
    "--instances": _word("a benchmark's list of such properties, instead of networks", "FILE.csv"),
    "--timeout": _word("seconds for each instance (100)", "S", float),
    "--sizes": _word("sizes of the targets, from inputs to outputs (a ladder)", "2-4-1,3-6-6-2,…"),
    "--peft": _word("a run whose norms become an adapter of PEFT, instead of networks", "OUT"),
    "--update": _word("the target after fine-tuning: which part the norms express", "TUNED"),
    "--trusted": _flag("say what has to be right for an ACCEPTED"),
    "--cnn": _flag("a convolutional network with norms, a skip and pooling"),
    "--only": _word("this statement in full", "NAME", action="append"),
    "--thorough": _flag("larger sizes (minutes)"),
    "-v": _flag("a line for each step that is done, with its time"),
    "--list": _flag("names and claims, nothing is run"),
    "--data": {"default": "digits", "help": "digits, an .npz with x and y, or a folder of images"},
    "--model": _choice("(resnet)", "resnet vgg mlp", default="resnet"),
    "--depth": {"type": int, "help": "layers (resnet 14, vgg 11; mlp: hidden, 2)"},
    "--width": {"type": int, "help": "channels of the first stage (16; mlp 256)"},
    "--gamma": _choice("(uniform)", "uniform ones", default="uniform"),
    "--tune": _choice(
        "what is trained (norms); random: as many weights as the norms have parameters",
        "norms output norms+output all random",
        default="norms",
    ),
    "--epochs": {"type": int, "default": 30, "help": "(30)"},
    "--batch": {"type": int, "default": 128, "help": "(128)"},
    "--rate": {"type": float, "default": 0.1, "help": "first step, later a tenth (0.1)"},
    "--momentum": {"type": float, "default": 0.9, "help": "(0.9)"},
    "--decay": {"type": float, "default": 1e-4, "help": "weight decay (1e-4)"},
    "--grid": _word("values of one parameter; repeatable", "NAME=V,V,…", action="append"),
    "--jobs": _word("processes (default 1)", "N", int, default=1),
    "--seeds": {},
}

LONG = {"-o": "--output", "-v": "--verbose"}
NEEDED = {"-o!": "-o OUT", "--domain!": "--domain DOMAIN"}  # as the line of usage has them
DOMAIN = "--domain --split --count --normalise --radius"
SAID = "--json --quiet"
WORK = f"{SAID} -v"  # what takes long may say more
WRITTEN = f"--force {SAID}"
WORKED = f"--force {WORK}"
READ = "--unchecked-reading"

# Each command: what it does, its arguments, its options (with ! where they are required).
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": (
        "reconstruct a target network and write everything into OUT",
        "target",
        f"-o! {DOMAIN} --slack --guard --memory --time-limit | the frozen network: --frozen "
        "--ratio --float32-error --seed --weights --density --activation | how to reconstruct: "
        "--construction --norm --rank --block --layers --bounds --bounds-seconds --solver --dtype "
        f"--nnet-header | checking and output: --samples --tolerance --resume {READ} {WORKED}",
    ),
    "verify": (
        "certify or refute that two networks agree on a box",
        "target candidate",
        f"{DOMAIN} --property --instances --timeout --bounds --bounds-seconds --samples "
        f"--tolerance --time-limit --nnet-header -o {READ} {WORKED}",
    ),
    "check": (
        "re-check a certificate, trusting nothing of the solver",
        "path",
        f"--target --candidate --trusted {READ} {WORK}",
    ),
    "inspect": (
        "show a network and what each construction would cost",
        "network",
        f"--ratio --rank --block --density --nnet-header {SAID}",
    ),
    "demo": (
        "turn a random network into the shipped digits classifier",
        "",
        f"-o --seed --cnn {WORKED}",
    ),
    "prove": (
        "check every statement that the tool rests on, and say what each check is worth",
        "",
        "--json --only --thorough -v --list",
    ),
    "reach": (
        "prove how close no norms of a frozen network come to an affine map",
        "frozen target",
        f"--domain! --update -o {WRITTEN}",
    ),
    "report": ("rebuild report.html from the files of a run", "path", SAID),
    "rebuild": (
        "write network.onnx of a run again from its seed and norms, the same bits",
        "path",
        f"--target --frozen {SAID}",
    ),
    "export": (
        "write what other tools read: VNN-LIB properties of a difference, or norms for PEFT",
        "target candidate",
        f"-o! --domain --tolerance --peft {WRITTEN}",
    ),
    "pairs": (
        "make pairs of networks with known answers, for those who write verifiers",
        "",
        f"-o! --sizes --count --seed {WORKED}",
    ),
    "train": (
        "train nothing but the norms of a random network",
        "",
        f"-o! --data --resume {WORKED} | the network: --model --depth --width --norm --gamma "
        "| the training: --tune --epochs --batch --rate --momentum --decay --seeds",
    ),
    "study": (
        "answer a question about norm tuning by many trials",
        "name",
        f"-o! --grid --seeds --jobs --resume {WORKED}",
    ),
}

# What a word means in one command alone.
CHANGED: dict[tuple[str, str], dict[str, Any]] = {
    ("run", "--domain"): {"help": f"{OPTIONS['--domain']['help']} (default -1,1)"},
    ("verify", "--time-limit"): {
        "help": "for everything (without it: 90 for search and joint bound, any for the other "
        "proofs)"
    },
    ("verify", "target"): {"nargs": "?"},
    ("verify", "candidate"): {"nargs": "?"},
    ("export", "--tolerance"): {"help": "difference that counts (needed with networks)"},
    ("export", "target"): {"nargs": "?"},
    ("export", "candidate"): {"nargs": "?"},
    ("check", "path"): {"metavar": "OUT|certificate.json"},
    ("inspect", "--ratio"): {"type": float, "default": 1.5, "help": "neurons per equation (1.5)"},
    ("demo", "-o"): {"default": "demo-out"},
    ("demo", "--seed"): {"default": 0},
    ("rebuild", "--frozen"): {"help": "the frozen network, if it was brought and not drawn"},
    ("pairs", "--count"): {"default": 30, "help": "pairs to make (30)"},
    ("pairs", "--seed"): {"default": 0},
    ("prove", "-v"): {"help": "every check of every statement"},
    ("train", "--norm"): _choice("of an mlp (batch)", "batch layer", default="batch"),
    ("train", "--seeds"): _word("one training each (0)", "S,S,…", default="0"),
    ("study", "--seeds"): _word("trials for each point of the grid", "N", int),
}


class Parser(argparse.ArgumentParser):
    """Says what may have been meant where a word is not known."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*?)'|unrecognized arguments: ([^\s=]+)", message)
        choices = [str(word) for one in OPTIONS.values() for word in one.get("choices", ())]
        known = [*COMMANDS, *OPTIONS, *choices]
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
    for name, (text, arguments, options) in COMMANDS.items():
        about = f"{text[0].upper()}{text[1:]}."
        needed = [NEEDED[word] for word in options.split() if word in NEEDED]
        usage = " ".join(["%(prog)s", *arguments.upper().split(), *needed, "[options]"])
        command = commands.add_parser(name, help=text, description=about, usage=usage)
        for word in arguments.split():
            command.add_argument(word, **{**OPTIONS[word], **CHANGED.get((name, word), {})})
        for part in options.split(" | "):
            title, found, words = part.rpartition(": ")
            group = command.add_argument_group(title) if found else command
            for word in words.split():
                key = word.rstrip("!")
                settings = {**OPTIONS[key], **CHANGED.get((name, key), {})}
                if word != key:
                    settings["required"] = True
                group.add_argument(*filter(None, (key, LONG.get(key))), **settings)
    return parser

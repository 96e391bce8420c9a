"""The grammar of the command line."""

from __future__ import annotations

import argparse

from reconstruct.cli.arguments import add_output, folder, ratio
from reconstruct.version import __version__

DOMAIN_HELP = (
    "box on which the claim holds: LO,HI for all inputs, lo1,lo2,…:hi1,hi2,…, "
    "a .vnnlib file, an .npz with lo and hi, or an .npz with x (data: these inputs alone)"
)

READS = ("run", "verify", "check", "inspect", "rebuild", "export")  # commands that read networks


def build_parser() -> argparse.ArgumentParser:
    """The parser of `reconstruct`; `cli/commands.py` has a function for each command."""
    parser = argparse.ArgumentParser(
        prog="reconstruct",
        description="Rebuild a ReLU network inside a random frozen one by its norm parameters "
        "alone, and prove that the two agree.",
    )
    parser.add_argument("--version", action="version", version=f"reconstruct {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_verify(commands)
    _add_check(commands)
    _add_inspect(commands)
    _add_demo(commands)
    _add_prove(commands)
    _add_report(commands)
    _add_rebuild(commands)
    _add_export(commands)
    _add_train(commands)
    _add_study(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    if name in READS:
        parser.add_argument(
            "--unchecked-reading",
            action="store_true",
            help="read ONNX files that no other program can evaluate; the verdict says so",
        )
    return parser


def _add_construction(run: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Which construction, and the settings that some of them have."""
    how = run.add_argument_group("how to reconstruct")
    how.add_argument(
        "--construction",
        choices=["wide", "grouped", "factored", "deep", "stacked", "fitted"],
        default="wide",
        help="(wide)",
    )
    how.add_argument("--rank", type=int, metavar="R", help="rank for factored (default: exact)")
    how.add_argument("--block", type=int, metavar="K", help="block size for grouped, deep")
    how.add_argument("--layers", type=int, metavar="L", help="hidden layers per map for stacked")
    return how


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = _command(commands, "run", "reconstruct a target network and write everything into OUT")
    run.add_argument("target", metavar="TARGET", help="network to rebuild: .onnx, .npz, .nnet")
    add_output(run)
    run.add_argument("--domain", help=DOMAIN_HELP + " (default -1,1)")
    _add_radius(run)
    run.add_argument(
        "--slack", type=float, metavar="S", help="widen ranges seen on data by 1 + S (default 1)"
    )
    run.add_argument(
        "--guard", action="store_true", help="write network_guarded.onnx too (always for data)"
    )
    run.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory that the run may take, such as 2G: refused beforehand if it needs more",
    )
    run.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="for everything: what is solved by then is kept for --resume, a proof stays undecided",
    )
    _add_frozen(run)
    _add_how(run)
    _add_checking(run)


def _add_frozen(run: argparse.ArgumentParser) -> None:
    """Which frozen network: one of the user's, or how to draw one."""
    frozen = run.add_argument_group("the frozen network")
    frozen.add_argument("--frozen", metavar="FILE", help="bring your own instead of drawing one")
    frozen.add_argument(
        "--ratio",
        type=ratio,
        help="hidden neurons per equation (default 1.5), or auto: as --float32-error needs",
    )
    frozen.add_argument(
        "--float32-error",
        type=float,
        metavar="E",
        help="with --ratio auto: the float32 error that may be expected (a prediction, no bound)",
    )
    frozen.add_argument("--seed", type=int, help="seed of the draw (default 0)")
    frozen.add_argument(
        "--weights",
        choices=["gaussian", "uniform", "kaiming", "rademacher"],
        help="distribution of the weights (default gaussian)",
    )
    _add_density(frozen)
    frozen.add_argument(
        "--activation",
        choices=["relu", "leakyrelu", "elu", "selu", "relu6", "hardtanh"],
        help="activation inside the frozen sites (default relu)",
    )


def _add_how(run: argparse.ArgumentParser) -> None:
    """Construction, bounds and solver, and in which precision the norms are written."""
    how = _add_construction(run)
    _add_bounds(how)
    how.add_argument(
        "--solver",
        default="auto",
        metavar="NAME",
        help="direct (factorises each system), cg (conjugate gradients, for large ones), exact "
        "(rational numbers, for small ones), or auto: by size (auto)",
    )
    how.add_argument(
        "--dtype",
        choices=["float64", "float32"],
        default="float64",
        help="precision in which gammas and betas are written; with float32 the headline is about "
        "evaluation in float32 (float64)",
    )
    how.add_argument("--nnet-header", action="store_true", help="fold a .nnet header's ranges in")


def _add_checking(run: argparse.ArgumentParser) -> None:
    """How much to look for differences, and what to do with OUT."""
    check = run.add_argument_group("checking and output")
    _add_samples(check)
    check.add_argument("--tolerance", type=float, help="difference that counts (1e-6 × scale)")
    check.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    check.add_argument("--force", action="store_true", help="overwrite the results in OUT")
    _add_speech(check)


def _add_samples(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="inputs to try (10000; 1000 where the certificate excludes a difference)",
    )


def _add_density(parser: argparse._ActionsContainer) -> None:
    """The share of weights that are kept."""
    parser.add_argument(
        "--density", type=float, metavar="P", help="keep each weight with chance P (default 1)"
    )


def _add_radius(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--radius", type=float, metavar="R", help="boxes of this radius around the inputs of data"
    )


def _add_bounds(parser: argparse._ActionsContainer) -> None:
    """How to bound the target's values: the same for every command that does."""
    parser.add_argument(
        "--bounds",
        choices=["interval", "crown", "adaptive"],
        help="how to bound the target's values, from fast to tight: interval arithmetic, crown "
        "(linear relaxations), adaptive (crown on parts of the domain, which is split where that "
        "helps; with more than 16 inputs the same as crown); tighter bounds give smaller shifts "
        "(adaptive, with more than 8 inputs crown)",
    )
    parser.add_argument(
        "--bounds-seconds", type=float, metavar="T", help="time that adaptive bounds may take"
    )


def _add_verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verify = _command(commands, "verify", "certify or refute that two networks agree on a box")
    verify.add_argument("target", metavar="TARGET")
    verify.add_argument("candidate", metavar="CANDIDATE")
    verify.add_argument("--domain", required=True, help=DOMAIN_HELP)
    _add_radius(verify)
    _add_bounds(verify)
    _add_samples(verify)
    verify.add_argument("--tolerance", type=float, help="difference that counts (1e-6 × scale)")
    verify.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="for everything (without it: 90 for search and joint bound, any for the other proofs)",
    )
    verify.add_argument("--nnet-header", action="store_true", help="fold .nnet headers in")
    verify.add_argument(
        "-o", "--output", metavar="OUT", type=folder, help="write certificate and report here"
    )
    verify.add_argument("--force", action="store_true", help="overwrite the results in OUT")
    _add_speech(verify)


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = _command(commands, "check", "re-check a certificate, trusting nothing of the solver")
    check.add_argument(
        "path", metavar="OUT|certificate.json", help="what a run wrote: the folder or the file"
    )
    check.add_argument(
        "--target",
        metavar="FILE",
        help="where the target is now; it must be, byte for byte, the one that was certified",
    )
    check.add_argument(
        "--candidate", metavar="FILE", help="where the other network is now, likewise"
    )
    _add_speech(check)


def _add_inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    inspect = _command(commands, "inspect", "show a network and what each construction would cost")
    inspect.add_argument("network", metavar="NETWORK", help=".onnx, .npz or .nnet")
    inspect.add_argument(
        "--ratio", type=float, default=1.5, help="hidden neurons per equation (default 1.5)"
    )
    inspect.add_argument("--rank", type=int, metavar="R", help="rank for factored (default: exact)")
    inspect.add_argument("--block", type=int, metavar="K", help="block size for grouped, deep")
    _add_density(inspect)
    inspect.add_argument(
        "--nnet-header", action="store_true", help="fold a .nnet header's ranges in"
    )
    _add_speech(inspect)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = _command(commands, "demo", "turn a random network into the shipped digits classifier")
    demo.add_argument("-o", "--output", metavar="OUT", type=folder, default="demo-out")
    demo.add_argument("--seed", type=int, default=0)
    demo.add_argument("--force", action="store_true", help="overwrite the results in OUT")
    demo.add_argument(
        "--cnn", action="store_true", help="a convolutional network with norms, a skip and pooling"
    )
    _add_speech(demo)


def _add_prove(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    prove = _command(commands, "prove", "check every statement that the tool rests on")
    prove.add_argument("--json", action="store_true", help="a JSON document on stdout")
    prove.add_argument("--only", metavar="NAME", action="append", help="this statement in full")
    prove.add_argument("--thorough", action="store_true", help="larger sizes (minutes)")
    prove.add_argument("--verbose", action="store_true", help="every check of every statement")
    prove.add_argument("--list", action="store_true", help="names and claims, nothing is run")


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    report = _command(commands, "report", "rebuild report.html from the files of a run")
    report.add_argument("path", metavar="OUT")
    _add_speech(report)


def _add_rebuild(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "write network.onnx of a run again from its seed and norms, the same bits"
    rebuild = _command(commands, "rebuild", text)
    rebuild.add_argument("path", metavar="OUT", help="what a run wrote")
    rebuild.add_argument("--target", metavar="FILE", help="where the target is, if not in OUT")
    rebuild.add_argument(
        "--frozen", metavar="FILE", help="the frozen network, if it was brought and not drawn"
    )
    _add_speech(rebuild)


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = _command(commands, "export", "write the difference network and VNN-LIB properties")
    export.add_argument("target", metavar="TARGET")
    export.add_argument("candidate", metavar="CANDIDATE")
    export.add_argument("--domain", required=True, help=DOMAIN_HELP)
    export.add_argument("--tolerance", type=float, required=True, help="difference that counts")
    add_output(export)
    export.add_argument("--force", action="store_true", help="overwrite the files in OUT")
    _add_speech(export)


def _add_train(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    train = _command(commands, "train", "train nothing but the norms of a random network")
    add_output(train)
    train.add_argument("--data", default="digits", help="digits, an .npz with x and y, or CIFAR-10")
    model = train.add_argument_group("the network")
    model.add_argument("--model", choices=["resnet", "vgg", "mlp"], default="resnet")
    model.add_argument("--depth", type=int, help="layers (resnet 14, vgg 11; mlp: hidden, 2)")
    model.add_argument("--width", type=int, help="channels of the first stage (16; mlp 256)")
    model.add_argument("--gamma", choices=["uniform", "ones"], default="uniform", help="(uniform)")
    how = train.add_argument_group("the training")
    how.add_argument(
        "--tune",
        choices=["norms", "output", "norms+output", "all", "random"],
        default="norms",
        help="what is trained (norms); random: as many weights as the norms have parameters",
    )
    how.add_argument("--epochs", type=int, default=30, help="(30)")
    how.add_argument("--batch", type=int, default=128, help="(128)")
    how.add_argument("--rate", type=float, default=0.1, help="first step, later a tenth (0.1)")
    how.add_argument("--momentum", type=float, default=0.9, help="(0.9)")
    how.add_argument("--decay", type=float, default=1e-4, help="weight decay (1e-4)")
    how.add_argument("--seeds", default="0", metavar="S,S,…", help="one training each (0)")
    how.add_argument("--resume", action="store_true", help="go on with an interrupted training")
    how.add_argument("--force", action="store_true", help="overwrite the results in OUT")
    _add_speech(train)


def _add_speech(group: argparse._ActionsContainer) -> None:
    group.add_argument("--json", action="store_true", help="print the report as JSON on stdout")
    group.add_argument("--quiet", action="store_true", help="the verdict line alone")


def _add_study(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    study = _command(commands, "study", "answer a question about norm tuning by many trials")
    study.add_argument("name", metavar="NAME", help="sparsity, width, depth, conditioning, stacked")
    add_output(study)
    study.add_argument(
        "--grid", action="append", metavar="NAME=V,V,…", help="values of one parameter; repeatable"
    )
    study.add_argument("--seeds", type=int, metavar="N", help="trials for each point of the grid")
    study.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    study.add_argument("--resume", action="store_true", help="go on where it was stopped")
    study.add_argument("--force", action="store_true", help="replace what OUT holds")
    study.add_argument("--json", action="store_true", help="findings as JSON")
    study.add_argument("--quiet", action="store_true", help="no progress")

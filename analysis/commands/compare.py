"""The command ``direag compare``: fits against each other, by parameters, predictions or leave-one-out; evaluations."""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_direag.commands.options import (
    ChainsOption,
    ColumnOption,
    DrawsOption,
    EqualOption,
    JsonOption,
    ScaleOption,
    SeedOption,
    WarmupOption,
    chosen_columns,
    chosen_sampling,
    out,
    progress,
    require_parent,
)
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    from bayes_direag.fits.fit import Fit


def compare_command(
    compared: Annotated[
        list[Path],
        typer.Argument(metavar="A B", help="Fits, or folders as `direag evaluate` writes them; two or more."),
    ],
    observations: Annotated[
        Path | None, typer.Option("--obs", metavar="OBS", help="Two fits: predict these questions from both.")
    ] = None,
    target: Annotated[Path | None, typer.Option("--out", help="Folder for tables and pictures.")] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="A MAP and a NUTS fit: refit to so many labelled questions of OBS, to see how intervals narrow.",
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Folders: the method to compare. Left out: direag.")] = None,
    allow_weighted: Annotated[
        bool, typer.Option("--allow-weighted", help="Use fits although their preset weighs questions unequally.")
    ] = False,
    column: ColumnOption = None,
    scale: ScaleOption = None,
    equal: EqualOption = None,
    chains: ChainsOption = 2,
    warmup: WarmupOption = 500,
    draws: DrawsOption = 500,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap resamples, and permutations.")] = 1000,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare a MAP with the posterior, NUTS fits by leave-one-out, or evaluations on the same questions.

    A MAP and a NUTS fit of one variant: parameters side by side and, with --obs, answers, confidences, metrics and
    interval widths. NUTS fits to the same questions: how well each predicts a question left out. Folders of
    evaluations: paired differences of every metric.

    Chains, warm-up and draws are those of the fits that --labels asks for.

    Example: direag compare map.nc nuts.nc --obs labelled.jsonl
    """
    from analysis.comparison import comparison_findings as sections
    from analysis.comparison.comparison_folder import FOLDER, write_comparison
    from analysis.comparison.comparison_tables import descriptions_table
    from analysis.evaluated_run import read_evaluated_run
    from bayes_direag.data.observations import Observations

    if target is not None:
        require_parent(target)
        FOLDER.check(target)
    paths, sizes = _named(compared), _sizes(labels)
    are_folders = compared[0].is_dir()
    _check_options(are_folders, observations, sizes, method)
    sampling, columns = chosen_sampling(chains, warmup, draws, target_accept=0.9), chosen_columns(column, scale, equal)
    findings = sections.Findings()
    with progress() as step:
        if are_folders:
            runs = {name: read_evaluated_run(path) for name, path in paths.items()}
            described = {name: sections.describe_evaluation(run) for name, run in runs.items()}
            step("comparing evaluations")
            sections.add_evaluations(findings, runs, method or "direag", seed=seed, n_resamples=resamples)
        else:
            fits, has_map = _loaded(paths, observations, sizes)
            described = {name: sections.describe_fit(fit) for name, fit in fits.items()}
            pair = sections.FitPair.of(fits) if len(fits) == 2 else None
            if pair and has_map:
                sections.add_parameters(findings, pair)
            else:
                sections.add_leave_one_out(findings, fits, allow_weighted=allow_weighted)
            if pair and observations is not None:
                questions = Observations.read(observations, pair.first.tree.attrs["answers"], columns)
                step(f"predicting {len(questions)} questions")
                sections.add_predictions(findings, pair, questions, seed=seed, n_resamples=resamples)
                if sizes:
                    sections.add_interval_widths(
                        findings,
                        pair.second,
                        questions,
                        sizes,
                        sampling=sampling,
                        allow_weighted=allow_weighted,
                        seed=seed,
                        on_step=step,
                    )
        record = {
            "compared": described,
            "paths": {name: str(paths[name]) for name in described},
            "seed": seed,
            "resamples": resamples,
            **findings.record,
            "versions": {name: version(name) for name in ("bayes-direag", "numpyro", "jax", "numpy", "scipy")},
        }
        if target is not None:
            step("drawing")
            write_comparison(
                target, record, findings.tables, {name: draw() for name, draw in findings.pictures.items()}
            )
    if as_json:
        out.print_json(data=record if target is None else {"out": str(target), **record}, allow_nan=False)
        return
    out.print(descriptions_table(described), *findings.shown)
    if target is not None:
        names = [*(f"{name}.csv" for name in findings.tables), *(f"{name}.png" for name in findings.pictures)]
        out.print(f"{target}: {', '.join([*names, 'comparison.json'])}\n", soft_wrap=True)


def _loaded(paths: dict[str, Path], observations: Path | None, sizes: tuple[int, ...]) -> tuple[dict[str, "Fit"], bool]:
    """Load fits, a MAP of two first; say whether one of two is a MAP. Refuse options that do not go with them."""
    from bayes_direag.fits.fit import Fit

    fits = {name: Fit.load(path) for name, path in paths.items()}
    is_nuts = {name: fit.tree.attrs["method"] == "nuts" for name, fit in fits.items()}
    has_map = len(fits) == 2 and not all(is_nuts.values())
    if observations is not None and len(fits) != 2:
        raise DirEAGError(
            f"--obs: saw {len(fits)} fits; expected two, whose predictions can be set side by side. Name two, or leave "
            "it out."
        )
    if sizes and not (has_map and any(is_nuts.values())):
        raise DirEAGError(
            "--labels: saw no pair of a MAP and a NUTS fit; expected one, whose variant and preset to refit. Leave it "
            "out, or name such a pair."
        )
    return (dict(sorted(fits.items(), key=lambda item: is_nuts[item[0]])) if has_map else fits), has_map


def _check_options(are_folders: bool, observations: Path | None, sizes: tuple[int, ...], method: str | None) -> None:
    if are_folders and (observations or sizes):
        option = "--obs" if observations else "--labels"
        raise DirEAGError(f"{option}: saw evaluation folders; expected it with fits. Leave it out.")
    if not are_folders and method is not None:
        raise DirEAGError(f"--method {method}: saw fits; expected it with evaluation folders. Leave it out.")
    if sizes and observations is None:
        raise DirEAGError("--labels: saw no --obs; expected the labelled questions to draw from. Give --obs OBS.")


def _named(paths: list[Path]) -> dict[str, Path]:
    """Name each thing by the last part of its path if that tells all apart, else by the whole path."""
    if len(paths) < 2 or len({path.resolve() for path in paths}) < len(paths):
        seen = f"{paths[0]} alone" if len(paths) == 1 else "one of them twice"
        raise DirEAGError(f"saw {seen}; expected two or more different fits or evaluation folders. Name another.")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise DirEAGError(f"{missing[0]}: no such file or folder; expected a fit or an evaluation folder.")
    folders = [path for path in paths if path.is_dir()]
    if 0 < len(folders) < len(paths):
        raise DirEAGError(
            f"saw {folders[0]}, a folder, among files; expected fits alone or evaluation folders alone. Compare like "
            "with like."
        )
    names = [path.resolve().name if folders else path.stem for path in paths]
    return dict(zip(names if len(set(names)) == len(names) else map(str, paths), paths, strict=True))


def _sizes(labels: str | None) -> tuple[int, ...]:
    if labels is None:
        return ()
    try:
        return tuple(int(text) for text in labels.split(","))
    except ValueError:
        raise DirEAGError(f"--labels {labels}: expected whole numbers with commas between, as in 50,100,200.") from None

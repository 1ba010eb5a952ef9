"""The command ``direag compare``: a point estimate and a posterior, variants, or evaluations."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_direag.commands import options
from bayes_direag.errors import DirEAGError


def compare_command(
    compared: Annotated[
        list[Path],
        typer.Argument(metavar="A B", help="Fits, or folders as `direag evaluate` writes them; two or more."),
    ],
    observations: Annotated[
        Path | None, typer.Option("--obs", metavar="OBS", help="Fits: predict these questions instead.")
    ] = None,
    target: Annotated[Path | None, typer.Option("--out", help="Folder for tables and pictures.")] = None,
    preset: options.ProgramOption = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    same: options.SameOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare a point estimate with the posterior, variants by leave-one-out, or evaluations on the same questions.

    Fits to the same questions, such as one by map and one by nuts: where the parameters lie, which answers change and
    how far probabilities move, each question predicted without its own label. With --obs: predictions of other
    questions. NUTS fits alone: which predicts a question left out best. Folders of evaluations: paired differences of
    every metric.

    Example: direag compare map.nc nuts.nc
    """
    from analysis.comparison import COMPARISON_FOLDER, compare
    from analysis.display.terminal import shown
    from analysis.evaluation import Evaluation
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.fit import Fit

    if target is not None:
        COMPARISON_FOLDER.check(target)
        options.may_replace(target)
    paths = _named(compared)
    things: Any = {name: Evaluation.read(path) if path.is_dir() else Fit.load(path) for name, path in paths.items()}
    if preset is not None:
        fits = [name for name, fit in things.items() if isinstance(fit, Fit)]
        for name in [name for name in fits if things[name].preset.is_own] or fits:  # presets' own fits may be beside it
            things[name] = things[name].with_program(options.chosen_preset(preset), str(paths[name]))
    questions = None
    if observations is not None:
        first = next(iter(things.values()))
        kind, known = (first.answers, first.columns) if isinstance(first, Fit) else (None, None)
        columns = options.chosen_columns(column, scale, groups, known)
        questions = Observations.read(observations, kind, columns, same=options.chosen_same(same))
    with options.progress() as step:
        comparison = compare(things, questions, on_step=step)
        comparison.record["paths"] = {name: str(paths[name]) for name in comparison.described}
        if target is not None:
            step("drawing")
            comparison.write(target)
    if as_json:
        record = comparison.record
        options.out.print_json(data=record if target is None else {"out": str(target), **record}, allow_nan=False)
        return
    options.out.print(shown(comparison.blocks()))
    if target is not None:
        options.out.print(f"{target}: {', '.join(sorted(path.name for path in target.iterdir()))}\n", soft_wrap=True)


def _named(paths: list[Path]) -> dict[str, Path]:
    """Name each thing by the last part of its path if that tells all apart, else by the whole path."""
    if len(paths) < 2 or len({path.resolve() for path in paths}) < len(paths):
        seen = f"{paths[0]} alone" if len(paths) == 1 else "one of them twice"
        raise DirEAGError(f"saw {seen}; expected two or more different fits or evaluation folders. Name another.")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise DirEAGError(f"{missing[0]}: no such file or folder; expected a fit or an evaluation folder.")
    names = [path.resolve().name if path.is_dir() else path.stem for path in paths]
    return dict(zip(names if len(set(names)) == len(names) else map(str, paths), paths, strict=True))

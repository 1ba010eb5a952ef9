"""What ``fit --pool``, ``predict`` and ``show`` do with several settings: they name them, choose one and show them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from bayes_direag.commands.options import out, plain_table
from bayes_direag.data.records import Columns
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.fit import Fit
    from bayes_direag.fits.multi_setting import MultiSettingFit

ObservationsFiles = Annotated[
    list[Path],
    typer.Argument(help="Observation file: JSON Lines, Parquet or CSV; with --pool one a setting.", metavar="OBS..."),
]
PoolOption = Annotated[
    bool,
    typer.Option(
        "--pool", help="Fit to several files together, each a setting that borrows from the others; always by NUTS."
    ),
]
SettingOption = Annotated[
    str | None,
    typer.Option(
        help="Of a pooled fit: which setting the questions are of, or new. Left out: that of their model and dataset, "
        "else new; it says which.",
    ),
]


def only_file(paths: Sequence[Path]) -> Path:
    """Return the one file of a fit that does not pool; DirEAGError if there are several."""
    if len(paths) > 1:
        raise DirEAGError(
            f"saw {len(paths)} observation files; expected one. Add --pool to fit to them together, each a setting of "
            "its own, or join them."
        )
    return paths[0]


def named_settings(files: Sequence[tuple[Path, "Observations"]]) -> dict[str, "Observations"]:
    """Name each file's questions: by model and dataset if every file has one pair and no two the same, else its stem.

    Raises DirEAGError if two files would have one name.
    """
    from bayes_direag.fits.multi_setting import pairs_of

    pairs = [pairs_of(questions) for _, questions in files]
    stated = all(len(own) == 1 and any(next(iter(own))) for own in pairs)
    if stated and len(set(map(frozenset, pairs))) == len(pairs):
        names = [", ".join(part for part in next(iter(own)) if part) for own in pairs]
    else:
        names = [path.stem for path, _ in files]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DirEAGError(
            f"saw {names.count(twice)} settings called {twice!r}; expected a different model and dataset, or file "
            "name, for each. Rename the files, or join those of one setting."
        )
    return dict(zip(names, (questions for _, questions in files), strict=True))


def setting_of_fit(path: Path, setting: str | None) -> "Fit":
    """Load a fit, or a setting of a pooled one, ``new`` where none is named.

    Raises DirEAGError if there is no such setting, or the fit is not pooled though one is asked for.
    """
    from bayes_direag.fits.fit import Fit
    from bayes_direag.fits.multi_setting import NEW, MultiSettingFit, is_multi_setting

    if is_multi_setting(path):
        return MultiSettingFit.load(path).setting(setting or NEW)
    if setting is not None:
        raise DirEAGError(
            f"--setting {setting}: {path} is not a pooled fit; expected one, as `direag fit A B "
            "--pool` writes it. Leave the option out."
        )
    return Fit.load(path)


def chosen_fit(
    path: Path, observations: Path, setting: str | None, columns: Columns | None = None
) -> tuple["Fit", str | None]:
    """Load what is to predict a file: a fit, or of a pooled one the setting asked for, else the file's own.

    Returns the fit, and the name of the setting taken, None where the fit is not pooled. Raises DirEAGError if there is
    no such setting, several would do, or the fit is not pooled though one is asked for.
    """
    from bayes_direag.data.engines import is_parquet
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.multi_setting import MultiSettingFit, is_multi_setting, pairs_of

    if not is_multi_setting(path) or setting is not None:
        return setting_of_fit(path, setting), setting
    pooled = MultiSettingFit.load(path)
    kind = pooled.new.tree.attrs["answers"]
    pairs = _parquet_pairs(observations) if columns is None and is_parquet(observations) else None
    setting = pooled.setting_of(pairs_of(Observations.read(observations, kind, columns)) if pairs is None else pairs)
    return pooled.setting(setting), setting


def show_multi_setting(pooled: "MultiSettingFit", path: Path, *, as_json: bool) -> None:
    """Print the settings, what they have in common, and how the sampling went."""
    from arviz_stats import ess, rhat

    shared = pooled.hierarchy["posterior"].to_dataset()
    stats = pooled.hierarchy["sample_stats"].to_dataset()
    rows = []
    largest, smallest = rhat(shared), ess(shared)
    for name, draws in shared.data_vars.items():
        for level in [str(own) for own in draws["level"].to_numpy()] if "level" in draws.dims else [None]:
            place = {} if level is None else {"level": level}
            own = draws.sel(place)
            values = [
                float(one) for one in (own.mean(), own.std(), largest[name].sel(place), smallest[name].sel(place))
            ]
            rows.append({"parameter": str(name), "level": level,
                         **dict(zip(("mean", "sd", "rhat", "ess"), values, strict=True))})  # fmt: skip
    settings = [
        {"setting": name, "questions": fit.n_questions, "levels": len(fit.level_names)}
        for name, fit in pooled.settings.items()
    ]
    calibration = pooled.hierarchy.children.get("calibration_stats")
    divergences = int(stats["diverging"].sum()) + (0 if calibration is None else int(calibration["diverging"].sum()))
    kind = pooled.new.tree.attrs["answers"]
    if as_json:
        numbers = {"draws": pooled.new.n_samples, "divergences": divergences}
        out.print_json(data={"fit": str(path), "settings": settings, **numbers, "hierarchy": rows})
        return
    title = f"{path}: {len(settings)} settings, {kind} answers, {pooled.new.n_samples} draws, {divergences} divergences"
    shared_title = "What they have in common, on the scale of the raw parameters"
    caption = "spread: standard deviation of the settings around the centre. R-hat is to be below 1.01."
    tables = (Text(title, "italic"), _table(settings), Text(shared_title, "italic"), _table(rows))
    out.print(Group(*tables, Text(caption, "dim italic")))


def _table(rows: Sequence[Mapping[str, object]]) -> Table:
    table = plain_table(*rows[0])
    for row in rows:
        table.add_row(*(Text(_cell(name, value)) for name, value in row.items()))
    return table


def _cell(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if name == "ess" else f"{value:.3f}"
    return "" if value is None else str(value)


def _parquet_pairs(path: Path) -> set[tuple[str, str]]:
    """Return the (model, dataset) pairs of a Parquet file; an empty text where one is not stated."""
    from pyarrow import parquet

    here = [name for name in ("model", "dataset") if name in parquet.read_schema(path).names]
    if not here:
        return {("", "")}
    found = parquet.read_table(path, columns=here).group_by(here).aggregate([]).to_pylist()
    return {(row.get("model") or "", row.get("dataset") or "") for row in found}

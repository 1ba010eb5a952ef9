"""Pooled fits of several settings, for ``fit --pool``, ``predict`` and ``show``: naming, choosing, showing."""

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
    typer.Argument(
        help="Observation file: JSON Lines, Parquet or CSV; with --pool one for each setting.", metavar="OBS..."
    ),
]
PoolOption = Annotated[
    bool,
    typer.Option(
        "--pool", help="Fit several files together, each a setting that learns from the others; always by NUTS."
    ),
]
SettingOption = Annotated[
    str | None,
    typer.Option(
        help="Setting of the questions in a pooled fit, or new. By default that of their model and dataset, else new; "
        "it is printed."
    ),
]


def named_settings(files: Sequence[tuple[Path, "Observations"]]) -> dict[str, "Observations"]:
    """Name files by model and dataset if each has one pair and all pairs differ, otherwise by the stems of their paths.

    Raises DirEAGError if two files have the same name.
    """
    from bayes_direag.fits.multi_setting import pairs_of

    pairs = [pairs_of(questions) for _, questions in files]
    stated = [next(iter(pair)) for pair in pairs if len(pair) == 1]
    if len(set(filter(any, stated))) == len(files):
        names = [", ".join(filter(None, pair)) for pair in stated]
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
    """Load a fit, or a setting of a pooled fit, by default ``new``.

    Raises DirEAGError if there is no such setting, or if one is given and the fit is not pooled.
    """
    from bayes_direag.fits.fit import Fit
    from bayes_direag.fits.multi_setting import NEW, MultiSettingFit, is_multi_setting

    if is_multi_setting(path):
        return MultiSettingFit.load(path).setting(setting or NEW)
    if setting is not None:
        raise DirEAGError(
            f"--setting {setting}: {path} is not a pooled fit; expected one, as `direag fit A B --pool` writes it. "
            "Leave the option out."
        )
    return Fit.load(path)


def chosen_fit(
    path: Path, observations: Path, setting: str | None, columns: Columns | None = None
) -> tuple["Fit", str | None]:
    """Load the fit to predict a file with: of a pooled fit the given setting, or that of the file's model and dataset.

    Returns the fit and the name of the setting, None if the fit is not pooled. Raises DirEAGError if there is no such
    setting, several match, or one is given and the fit is not pooled.
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
    """Print the settings, the parameters that they share, and the diagnostics of the sampling."""
    from arviz_stats import ess, rhat

    shared = pooled.hierarchy["posterior"].to_dataset()
    rhats, sizes = rhat(shared), ess(shared)
    rows = []
    for name in shared.data_vars:
        for level in map(str, shared[name]["level"].to_numpy()) if "level" in shared[name].dims else (None,):
            place = {} if level is None else {"level": level}
            draws, rhat_of, ess_of = (table[name].sel(place) for table in (shared, rhats, sizes))
            figures = {"mean": draws.mean(), "sd": draws.std(), "rhat": rhat_of, "ess": ess_of}
            numbers = {figure: float(value) for figure, value in figures.items()}
            rows.append({"parameter": str(name), "level": level, **numbers})
    settings = [
        {"setting": name, "questions": fit.n_questions, "levels": len(fit.level_names)}
        for name, fit in pooled.settings.items()
    ]
    stats = [pooled.hierarchy.children.get(name) for name in ("sample_stats", "calibration_stats")]
    divergences = sum(int(part["diverging"].sum()) for part in stats if part is not None)
    n_draws = pooled.new.n_samples
    if as_json:
        counts = {"draws": n_draws, "divergences": divergences}
        out.print_json(data={"fit": str(path), "settings": settings, **counts, "hierarchy": rows})
        return
    kind = pooled.new.tree.attrs["answers"]
    title = f"{path}: {len(settings)} settings, {kind} answers, {n_draws} draws, {divergences} divergences"
    shared_title = "Parameters shared by the settings, on the unconstrained scale"
    caption = "spread: standard deviation of the settings around the centre. R-hat should be below 1.01."
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
    """Return the (model, dataset) pairs of a Parquet file; an empty text if one is not stated."""
    from pyarrow import parquet

    columns = [name for name in ("model", "dataset") if name in parquet.read_schema(path).names]
    if not columns:
        return {("", "")}
    rows = parquet.read_table(path, columns=columns).group_by(columns).aggregate([]).to_pylist()
    return {(row.get("model") or "", row.get("dataset") or "") for row in rows}

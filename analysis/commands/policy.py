"""The command ``direag policy``: which level to ask next, when to stop, and what that costs and is worth."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands import options
from bayes_direag.errors import DirEAGError


def policy_command(
    source: Annotated[
        Path,
        typer.Argument(metavar="FIT", help="A fit by `direag fit --partial`; with --replay, labelled questions."),
    ],
    target: Annotated[Path | None, typer.Option("--out", help="Where to write the policy, a JSON file.")] = None,
    budget: Annotated[
        float | None, typer.Option(help="The share of the price of all reports to spend on average, such as 0.3.")
    ] = None,
    value: Annotated[
        float | None,
        typer.Option(help="In place of a budget: what a right answer is worth, in the unit of the prices."),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help='The price of a report by level, as "gpt-4o" = 2.5; by default all equal.'),
    ] = None,
    person: Annotated[
        float | None, typer.Option(help="The price of a person's answer, in the unit of the prices.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="POLICY", help="Try this policy on labelled questions with all reports."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--plot", help="Where to draw benefit against price: .png, .svg or .pdf.")
    ] = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    equal: options.EqualOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Decide question by question which level to ask next, and when to stop, at a budget.

    The policy is tried on the questions of the fit, each decided about by a fit to others, and what it costs and is
    worth is printed beside asking all levels, the best fixed ones, and one: docs/ask-less.md. A service asks by the
    file, with NumPy alone.

    With --replay, the policy is tried on labelled questions that it has not seen, all of whose reports are known;
    --column, --scale, --groups and --equal say how they are read.

    Example: direag policy fit.nc --prices prices.toml --budget 0.3 --out policy.json --plot policy.png

    Example: direag policy --replay policy.json labelled.jsonl
    """
    from bayes_direag.fits.policy import Policy

    if picture is not None:
        options.check_file(picture, source, *filter(None, [prices, replay, target]), option="--plot")
    if replay is not None:
        if target or budget or value or prices or person:
            raise DirEAGError(
                "--replay tries a policy as it is. Leave out --out, --budget, --value, --prices and --person."
            )
        from bayes_direag.data.observations import Observations

        policy = Policy.load(replay)
        columns = options.chosen_columns(
            column, scale or policy.predictor.scale, groups or policy.predictor.groups, equal
        )
        questions = Observations.read(source, policy.predictor.answers, columns)
        forecast, tried = policy.replay(questions), f"tried on {source}"
    else:
        if target is None:
            raise DirEAGError("--out: saw none; expected the name of a file for the policy. Give one, or --replay.")
        options.check_file(target, source, *filter(None, [prices]))
        from bayes_direag.fits.fit import Fit

        learned, price = Fit.load(source), None if prices is None else _read_prices(prices)
        with options.progress() as step:
            step(f"replaying {learned.n_questions} questions")
            policy = learned.policy(prices=price, budget=budget, value=value, person=person)
        policy.save(target)
        forecast = policy.forecast
        tried = f"tried on the {policy.n_labels} labelled questions, each by a fit that has not seen it"
    if picture is not None:
        from analysis.asking import policy_figure
        from analysis.display.style import save_figure

        save_figure(policy_figure(forecast, f"{tried[0].upper()}{tried[1:]}."), picture)
    if as_json:
        options.out.print_json(data={"policy": str(replay or target), "forecast": forecast.to_dict("records")})
    else:
        options.out.print(f"{replay or target}: {tried}.\n{policy.text(forecast)}", soft_wrap=True)


def _read_prices(path: Path) -> dict[str, float]:
    """Read the price of each level from a TOML file."""
    try:
        return {name: float(price) for name, price in tomllib.loads(path.read_text("utf-8-sig")).items()}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise DirEAGError(
            f"--prices {path}: {error}; expected a TOML file with a line for each level, such as "
            '"cautious" = 1.5. Correct it.'
        ) from error

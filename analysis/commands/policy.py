"""The command ``direag policy``: which level to ask next, when to stop, and what that costs and is worth."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands import options
from bayes_direag.errors import DirEAGError


def policy_command(
    source: Annotated[
        Path, typer.Argument(metavar="FIT", help="A MAP fit by `direag fit`; or a policy, to try it on LABELLED.")
    ],
    labelled: Annotated[
        Path | None, typer.Argument(metavar="LABELLED", help="Labelled questions with all reports, new to the fit.")
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where to write the policy, with its fit.  [the name of FIT, with -policy.nc]",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="The share of the price of all reports to spend on average; by default 0.3.")
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help='The price of a report by level, as "gpt-4o" = 2.5; by default all equal.'),
    ] = None,
    person: Annotated[
        float | None, typer.Option(help="The price of a person's answer, in the unit of the prices.")
    ] = None,
    column: options.ColumnOption = None,
    preset: options.ProgramOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Decide question by question which level to ask next, and when to stop, at a budget.

    The policy is tried on the questions of the fit, each decided about by a fit to others, beside asking all levels and
    the best fixed ones, and the command says which of the three to do: docs/ask-less.md.

    With LABELLED, a policy is tried on questions that it has not seen.

    Example: direag policy fit.nc --prices prices.toml --budget 0.3 --out policy.nc

    Example: direag policy policy.nc labelled.jsonl
    """
    from bayes_direag.decisions.policy import Policy, policy

    if labelled is not None:
        if target or budget or prices or person:
            raise DirEAGError(
                f"saw the labelled questions {labelled}, on which a policy is tried as it is. Leave them out to make a "
                "policy; or leave out --out, --budget, --prices and --person."
            )
        made = Policy.load(source, None if preset is None else options.chosen_preset(preset))
        columns = options.chosen_columns(column, None, None, made.fit.columns)
        forecast = made.replay(made.fit.read(labelled, columns))
        tried = f"{source}: tried on {labelled}."
    else:
        target = target or options.beside(source, "-policy.nc")
        options.check_file(target, source, *filter(None, [prices]))
        learned, price = options.load_fit(source, preset), None if prices is None else _read_prices(prices)
        with options.progress() as step:
            step(f"replaying {learned.n_questions} questions")
            made = policy(learned, prices=price, budget=0.3 if budget is None else budget, person=person)
        made.save(target)
        forecast = made.forecast
        tried = f"{target}: tried on the {made.n_labels} labelled questions, each by a fit that has not seen it."
    if as_json:
        record = {"advice": made.advice(forecast), "forecast": forecast.to_dict("records")}
        options.out.print_json(data={"policy": str(source if labelled else target), **record})
    else:
        options.out.print(f"{tried}\n{made.text(forecast)}")


def _read_prices(path: Path) -> dict[str, float]:
    try:
        return {name: float(price) for name, price in tomllib.loads(path.read_text("utf-8-sig")).items()}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise DirEAGError(
            f"--prices {path}: {error}; expected a TOML file with a line for each level, such as "
            '"cautious" = 1.5. Correct it.'
        ) from error

"""The command ``direag show``: what a fit is, whether it has converged, and what it has learned."""

from analysis.commands.report import PlotOption, check_pictures, write_pictures
from bayes_direag.commands import options
from bayes_direag.errors import DirEAGError


def show_command(
    fit: options.FitFile,
    plot: PlotOption = None,
    preset: options.ProgramOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what a fit has learned, level by level, and whether it converged.

    Example: direag show fit.nc
    """
    from bayes_direag.commands.fit import fit_record

    if fit.is_dir():
        raise DirEAGError(f"{fit}: saw a folder; expected a fit (.nc). An evaluation is shown by direag report.")
    check_pictures(plot)
    with options.progress() as step:
        step(f"reading {fit}")
        learned = options.load_fit(fit, preset)
        if plot is not None:
            from analysis.learned import fit_pictures

            step("drawing")
            write_pictures(fit_pictures(learned), plot)
    if as_json:
        options.out.print_json(data=fit_record(learned, fit), allow_nan=False)
        return
    from analysis.display.terminal import shown
    from analysis.learned import convergence_block, fit_terms, learned_blocks

    options.out.print(shown([fit_terms(learned, str(fit)), convergence_block(learned), *learned_blocks(learned)]))

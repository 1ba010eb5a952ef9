"""The command ``direag show``: what a fit is, whether it has converged, and what it has learned."""

from analysis.commands.report import PlotOption, check_pictures, write_pictures
from bayes_direag.commands.options import FitFile, JsonOption, out, progress
from bayes_direag.errors import DirEAGError


def show_command(fit: FitFile, plot: PlotOption = None, as_json: JsonOption = False) -> None:
    """Show what a fit has learned, level by level, and whether it converged.

    Example: direag show fit.nc
    """
    from bayes_direag.commands.fit import fit_record
    from bayes_direag.fits.fit import Fit

    if fit.is_dir():
        raise DirEAGError(f"{fit}: saw a folder; expected a fit (.nc). An evaluation is shown by direag report.")
    check_pictures(plot)
    with progress() as step:
        step(f"reading {fit}")
        learned = Fit.load(fit)
        if plot is not None:
            from analysis.learned import fit_pictures

            step("drawing")
            write_pictures(fit_pictures(learned), plot)
    if as_json:
        out.print_json(data=fit_record(learned, fit), allow_nan=False)
        return
    from analysis.display.terminal import shown
    from analysis.learned import convergence_block, fit_terms, learned_blocks

    out.print(shown([fit_terms(learned, str(fit)), convergence_block(learned), *learned_blocks(learned)]))

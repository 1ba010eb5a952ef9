"""Every picture of a diagnosis, by the name of its file."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from analysis.diagnosis.check_plots import calibration_figure, pareto_figure, predictive_figure
from analysis.diagnosis.diagnostics import Diagnosis
from analysis.diagnosis.learning_plots import learning_figure, levels_figure
from analysis.diagnosis.sampling_plots import chains_figure, energy_figure, pairs_figure
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: Mapping[str, "Callable[[Diagnosis, Fit], Figure]"] = MappingProxyType(
    {
        "chains": chains_figure,
        "energy": energy_figure,
        "pairs": pairs_figure,
        "learning": learning_figure,
        "levels": levels_figure,
        "predictive": predictive_figure,
        "calibration": calibration_figure,
        "pareto": pareto_figure,
    }
)
"""Each makes its figure within :func:`~analysis.figures.style.figure_style`."""

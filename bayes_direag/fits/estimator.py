"""The model as an object with ``fit`` and ``predict``, in the manner of scikit-learn."""

from dataclasses import dataclass, field

import pandas as pd

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.model.settings import Preset, Variant


@dataclass
class DirEAG:
    """:func:`~bayes_direag.fit_map` and :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>` as one object.

    Attributes
    ----------
    preset, variant, seed
        As in :func:`~bayes_direag.fits.fitting.fit_map`.
    fit_ : Fit
        The fit, once :meth:`fit` has been called.

    Examples
    --------
    >>> from bayes_direag import DirEAG, simulate_observations
    >>> observations = simulate_observations(n=200, seed=1)
    >>> table = DirEAG().fit(observations).predict(observations)
    >>> table["confidence"].between(0, 1).all()
    np.True_
    """

    preset: str | Preset = "paper"
    variant: Variant = "confidence"
    seed: int = 0
    fit_: Fit = field(init=False, repr=False)

    def fit(self, observations: Observations) -> "DirEAG":
        """Fit to the labelled questions among the observations; return self."""
        self.fit_ = fit_map(observations, preset=self.preset, variant=self.variant, seed=self.seed)
        return self

    def predict(self, observations: Observations) -> pd.DataFrame:
        """Return the table of predictions; AttributeError before :meth:`fit`."""
        return self.fit_.predict(observations)

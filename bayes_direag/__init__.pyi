from .data.answers import canonical as canonical
from .data.labelling import questions_to_label as questions_to_label
from .data.observations import Observations as Observations
from .decisions.abstention import abstention as abstention
from .decisions.estimate import estimate as estimate
from .decisions.policy import Policy as Policy
from .decisions.policy import policy as policy
from .errors import DirEAGError as DirEAGError
from .fits.fit import Fit as Fit
from .fits.making import cross_fit as cross_fit
from .fits.making import fit_draws as fit_draws
from .fits.making import fit_map as fit_map
from .fits.making import fit_nuts as fit_nuts
from .fits.making import train_test as train_test
from .fits.sources import example_observations as example_observations
from .inference.map import penalised_loss as penalised_loss
from .inference.newton import ProjectedNewton as ProjectedNewton
from .model.likelihood_data import LikelihoodData as LikelihoodData
from .model.models import bayes as bayes
from .model.models import paper as paper
from .model.models import release as release
from .model.presets import PRESETS as PRESETS
from .model.presets import preset as preset
from .model.settings import Preset as Preset
from .model.simulate import simulate_observations as simulate_observations
from .model.unconstrained import without_bounds as without_bounds

__all__ = [
    "PRESETS",
    "DirEAGError",
    "Fit",
    "LikelihoodData",
    "Observations",
    "Policy",
    "Preset",
    "ProjectedNewton",
    "abstention",
    "bayes",
    "canonical",
    "cross_fit",
    "estimate",
    "example_observations",
    "fit_draws",
    "fit_map",
    "fit_nuts",
    "paper",
    "penalised_loss",
    "policy",
    "preset",
    "questions_to_label",
    "release",
    "simulate_observations",
    "train_test",
    "without_bounds",
]

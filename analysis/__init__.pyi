from .comparison.compare import Comparison as Comparison
from .comparison.compare import compare as compare
from .diagnosis.diagnostics import Diagnosis as Diagnosis
from .diagnosis.diagnostics import diagnose as diagnose
from .evaluation import Evaluation as Evaluation
from .evaluation import evaluate as evaluate

__all__ = ["Comparison", "Diagnosis", "Evaluation", "compare", "diagnose", "evaluate"]

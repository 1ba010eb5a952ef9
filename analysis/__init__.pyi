from .comparison import Comparison as Comparison
from .comparison import compare as compare
from .diagnosis import Diagnosis as Diagnosis
from .diagnosis import diagnose as diagnose
from .evaluation import Evaluation as Evaluation
from .evaluation import evaluate as evaluate
from .report import write_report as write_report

__all__ = ["Comparison", "Diagnosis", "Evaluation", "compare", "diagnose", "evaluate", "write_report"]

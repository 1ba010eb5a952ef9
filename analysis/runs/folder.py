"""An evaluation as a folder of files: tables, fits, and what it takes to repeat it."""

from analysis.display.folders import ResultFolder

MANIFEST = "evaluation.json"
FITS = "fits"
REPORT = "report.html"
TABLES = ("predictions", "metrics", "parameters")

FOLDER = ResultFolder("evaluation", MANIFEST, TABLES, others=(REPORT, f"{FITS}/*.nc"))

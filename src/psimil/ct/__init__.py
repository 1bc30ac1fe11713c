"""Head CT: from a folder of DICOM files to slice probabilities (docs/ct.md).

Reading (`read_series`, `index_folder`), windows (`apply_windows`), the attention CNN (`AttCNN`, `FeatureExtractor`) and
the whole way (`CTPipeline`). Names are loaded on first use, so that reading does not wait for torch.
"""

from typing import TYPE_CHECKING

__all__ = [
    "BLOOD",
    "BONE",
    "BRAIN",
    "SOFT",
    "WINDOWS",
    "AttCNN",
    "CTPipeline",
    "Cohort",
    "Failure",
    "FeatureExtractor",
    "Index",
    "Limits",
    "ReadingRules",
    "ReportedScan",
    "Scan",
    "Series",
    "Slices",
    "Source",
    "Study",
    "Window",
    "apply_windows",
    "choose_series",
    "index_folder",
    "read_report",
    "read_scan_labels",
    "read_series",
    "train_cnn",
    "train_jointly",
    "write_phantoms",
    "write_report",
]

if TYPE_CHECKING:
    from psimil.ct.attcnn import AttCNN as AttCNN
    from psimil.ct.cnn_training import train_cnn as train_cnn
    from psimil.ct.cohort import Cohort as Cohort
    from psimil.ct.cohort import Failure as Failure
    from psimil.ct.cohort import ReadingRules as ReadingRules
    from psimil.ct.extractor import FeatureExtractor as FeatureExtractor
    from psimil.ct.index import Index as Index
    from psimil.ct.index import index_folder as index_folder
    from psimil.ct.joint import train_jointly as train_jointly
    from psimil.ct.labels import read_scan_labels as read_scan_labels
    from psimil.ct.limits import Limits as Limits
    from psimil.ct.phantom_files import write_phantoms as write_phantoms
    from psimil.ct.pipeline import CTPipeline as CTPipeline
    from psimil.ct.scan import Scan as Scan
    from psimil.ct.scan import Source as Source
    from psimil.ct.selection import choose_series as choose_series
    from psimil.ct.series import read_series as read_series
    from psimil.ct.slices import Slices as Slices
    from psimil.ct.structured_report import ReportedScan as ReportedScan
    from psimil.ct.structured_report import read_report as read_report
    from psimil.ct.structured_report import write_report as write_report
    from psimil.ct.study import Series as Series
    from psimil.ct.study import Study as Study
    from psimil.ct.windows import BLOOD as BLOOD
    from psimil.ct.windows import BONE as BONE
    from psimil.ct.windows import BRAIN as BRAIN
    from psimil.ct.windows import SOFT as SOFT
    from psimil.ct.windows import WINDOWS as WINDOWS
    from psimil.ct.windows import Window as Window
    from psimil.ct.windows import apply_windows as apply_windows
else:
    from importlib import import_module

    _HOMES = {
        "AttCNN": "attcnn",
        "BLOOD": "windows",
        "BONE": "windows",
        "BRAIN": "windows",
        "CTPipeline": "pipeline",
        "Cohort": "cohort",
        "Failure": "cohort",
        "FeatureExtractor": "extractor",
        "Index": "index",
        "Limits": "limits",
        "ReadingRules": "cohort",
        "ReportedScan": "structured_report",
        "SOFT": "windows",
        "Scan": "scan",
        "Series": "study",
        "Slices": "slices",
        "Source": "scan",
        "Study": "study",
        "WINDOWS": "windows",
        "Window": "windows",
        "apply_windows": "windows",
        "choose_series": "selection",
        "index_folder": "index",
        "read_report": "structured_report",
        "read_scan_labels": "labels",
        "read_series": "series",
        "train_cnn": "cnn_training",
        "train_jointly": "joint",
        "write_phantoms": "phantom_files",
        "write_report": "structured_report",
    }

    def __getattr__(name):
        """Load a public name on first use (PEP 562)."""
        if name in _HOMES:
            value = getattr(import_module(f"psimil.ct.{_HOMES[name]}"), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        """Public names, loaded or not."""
        return list(__all__)

"""Head CT: from a folder of DICOM files to slice probabilities (docs/how-to/ct.md).

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
    from psimil.ct.dicom.folder import Limits
    from psimil.ct.network.attcnn import AttCNN
    from psimil.ct.network.cnn_training import train_cnn
    from psimil.ct.network.extractor import FeatureExtractor
    from psimil.ct.network.joint_training import train_jointly
    from psimil.ct.phantom.studies import write_phantoms
    from psimil.ct.pipeline import CTPipeline
    from psimil.ct.report.reported_scan import ReportedScan
    from psimil.ct.report.structured_report import read_report, write_report
    from psimil.ct.scans.cohort import Cohort, Failure, ReadingRules
    from psimil.ct.scans.index import Index, index_folder
    from psimil.ct.scans.label_file import read_scan_labels
    from psimil.ct.scans.scan import Scan, Slices, Source
    from psimil.ct.scans.series import read_series
    from psimil.ct.scans.study import Series, Study, choose_series
    from psimil.ct.scans.windows import BLOOD, BONE, BRAIN, SOFT, WINDOWS, Window, apply_windows
else:
    from importlib import import_module

    _HOMES = {
        "dicom.folder": ("Limits",),
        "network.attcnn": ("AttCNN",),
        "network.cnn_training": ("train_cnn",),
        "network.extractor": ("FeatureExtractor",),
        "network.joint_training": ("train_jointly",),
        "phantom.studies": ("write_phantoms",),
        "pipeline": ("CTPipeline",),
        "report.reported_scan": ("ReportedScan",),
        "report.structured_report": ("read_report", "write_report"),
        "scans.cohort": ("Cohort", "Failure", "ReadingRules"),
        "scans.index": ("Index", "index_folder"),
        "scans.scan": ("Scan", "Slices", "Source"),
        "scans.label_file": ("read_scan_labels",),
        "scans.series": ("read_series",),
        "scans.study": ("Series", "Study", "choose_series"),
        "scans.windows": ("BLOOD", "BONE", "BRAIN", "SOFT", "WINDOWS", "Window", "apply_windows"),
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

    def __getattr__(name):
        """Load a public name on first use (PEP 562)."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"psimil.ct.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        """Public names, loaded or not."""
        return list(__all__)

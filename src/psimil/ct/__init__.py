"""Head CT: from a folder of DICOM files to slice probabilities (docs/ct.md).

Reading (`read_series`, `index_folder`), windows (`windows`), the attention CNN (`AttCNN`, `FeatureExtractor`) and the
whole way (`CTPipeline`). Names are loaded on first use, so that reading does not wait for torch.
"""

from importlib import import_module
from typing import Any

from psimil.ct.windows import windows

_HOMES = {
    "AttCNN": "attcnn",
    "CTPipeline": "pipeline",
    "Cohort": "cohort",
    "FeatureExtractor": "extractor",
    "Scan": "scan",
    "Slices": "slices",
    "Window": "windows",
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
__all__ = [
    "AttCNN",
    "CTPipeline",
    "Cohort",
    "FeatureExtractor",
    "Scan",
    "Slices",
    "Window",
    "choose_series",
    "index_folder",
    "read_report",
    "read_scan_labels",
    "read_series",
    "train_cnn",
    "train_jointly",
    "windows",
    "write_phantoms",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name in _HOMES:
        value = getattr(import_module(f"psimil.ct.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return list(__all__)

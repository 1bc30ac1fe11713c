"""Labels of single slices, by SOP instance UID; they score a model and never train it."""

from __future__ import annotations

from pathlib import Path

from psimil.ct.labels import read_scan_labels
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile

UID_COLUMN, LABEL_COLUMN = "sop_instance_uid", "label"


def read_slice_labels(path: str | Path) -> dict[str, int]:
    r"""0 or 1 by SOP instance UID.

    Parameters
    ----------
    path : CSV file with the columns sop_instance_uid and label, or ``stage_2_train.csv`` of RSNA 2019.

    Raises
    ------
    InputError
        When the columns are not there, or a label is not 0 or 1.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "truth.csv"
    ...     _ = path.write_text("sop_instance_uid,label\n1.2.3,1\n")
    ...     read_slice_labels(path)
    {'1.2.3': 1}
    """
    import pandas as pd

    path = as_path(path)
    if not path.is_file():
        raise MissingFile(f"{path.name} was not found. Check its name.")
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except ValueError as error:  # what pandas raises for text that is no table
        raise InputError(f"{path.name} is not a CSV file.") from error
    if UID_COLUMN not in frame.columns:
        if labels := read_scan_labels(path).slice_labels:
            return labels
        raise InputError(f'{path.name} needs the columns "{UID_COLUMN}" and "{LABEL_COLUMN}".')
    if LABEL_COLUMN not in frame.columns or not frame[LABEL_COLUMN].isin(["0", "1"]).all():
        raise InputError(f'{path.name} needs the column "{LABEL_COLUMN}" with 0 or 1 in every row.')
    return dict(zip(frame[UID_COLUMN], frame[LABEL_COLUMN].astype(int), strict=True))

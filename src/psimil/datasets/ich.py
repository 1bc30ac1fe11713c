"""Intracranial hemorrhage: CNN features of head CT slices of RSNA and CQ500, read from a folder the user names."""

from pathlib import Path

from psimil.datasets import published
from psimil.datasets.scans import CNN_PRED, CNN_PROB, CNN_SLICE, SLICE_LABEL, Scans, read_scans
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile

CNNS = range(5)
ORDER = "rsna_slice_order.csv"


def load_rsna(directory: str | Path, cnn: int = 0, *, verify: bool = True) -> Scans:
    """150 scans of RSNA 2019 with 5254 labelled slices and eight features, on which the CNN was not trained.

    Parameters
    ----------
    directory : folder of ``rsna_f8_cnn0.csv`` to ``rsna_f8_cnn4.csv``, plain or gzipped, or the folder above its
        ``ich``. With ``rsna_slice_order.csv`` beside them the slices are put in axial order.
    cnn : which of the five trainings of the CNN made the features, 0 to 4; scans and slices are the same.
    verify : refuse a file that is not the published one.

    Returns
    -------
    scans : Scans.

    Examples
    --------
    >>> load_rsna("no-such-folder")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: rsna_f8_cnn0.csv (or .csv.gz) was not found in no-such-folder ...
    """
    path = _published(directory, f"rsna_f8_cnn{_checked(cnn)}.csv", verify)
    order: Path | None
    try:
        order = _published(directory, ORDER, verify)
    except MissingFile:
        order = None
    required = (SLICE_LABEL, CNN_SLICE, CNN_PRED, CNN_PROB)
    return read_scans(path, n_features=8, required=required, order=order)


def load_cq500(directory: str | Path, cnn: int = 0, *, verify: bool = True) -> Scans:
    """490 scans of CQ500 with 21190 slices without labels and eight features, in axial order.

    Parameters
    ----------
    directory : folder of ``cq500_f8_cnn0.csv`` to ``cq500_f8_cnn4.csv``, plain or gzipped, or the folder above its
        ``ich``.
    cnn : which of the five trainings of the CNN made the features, 0 to 4, as in :func:`load_rsna`.
    verify : refuse a file that is not the published one.

    Returns
    -------
    scans : Scans, ``y_instances`` all -1.

    Examples
    --------
    >>> load_cq500("data", cnn=5)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: cnn must be between 0 and 4, got 5.
    """
    path = _published(directory, f"cq500_f8_cnn{_checked(cnn)}.csv", verify)
    return read_scans(path, n_features=8, required=(CNN_PRED, CNN_PROB), rows_in_order=True)


def load_ich_pair(directory: str | Path, cnn: int = 0, *, verify: bool = True) -> tuple[Scans, Scans]:
    """RSNA and CQ500 with the features of the same CNN: train on one, test on the other.

    Parameters
    ----------
    directory, cnn, verify : as in :func:`load_rsna`.

    Returns
    -------
    rsna, cq500 : Scans.

    Examples
    --------
    >>> rsna, cq500 = load_ich_pair("no-such-folder", cnn=2)
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: rsna_f8_cnn2.csv (or .csv.gz) was not found in no-such-folder ...
    """
    return load_rsna(directory, cnn, verify=verify), load_cq500(directory, cnn, verify=verify)


def load_rsna_training(directory: str | Path, n_features: int, split: int) -> tuple[Scans, Scans, Scans]:
    """The paper's protocol, from files that are not public: train on RSNA, test on RSNA and on CQ500.

    Parameters
    ----------
    directory : folder of ``RSNA_{D}/train/RSNA_train_{D}_{i}.csv``, ``RSNA_{D}/test/RSNA_test_{D}_{i}.csv`` and
        ``CQ500_{D}/CQ500_{D}_{i}.csv``, plain or with the ending ``.gz``, for D features and split i.
    n_features : D, 8, 32 or 128.
    split : i, 1 to 5.

    Returns
    -------
    train, test, cq500 : Scans; RSNA slices come in the order of the file.

    Examples
    --------
    >>> train, test, cq500 = load_rsna_training("no-such-folder", n_features=8, split=1)
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: RSNA_8/train/RSNA_train_8_1.csv was not found in no-such-folder. ...
    """
    if n_features not in (8, 32, 128):
        raise InputError(f"n_features must be 8, 32 or 128, got {n_features}.")
    if split not in range(1, 6):
        raise InputError(f"split must be between 1 and 5, got {split}.")
    rsna, ending = f"RSNA_{n_features}", f"{n_features}_{split}.csv"
    train, test = (
        read_scans(
            _supplied(directory, f"{rsna}/{part}/RSNA_{part}_{ending}"), n_features=n_features, required=(SLICE_LABEL,)
        )
        for part in ("train", "test")
    )
    path = _supplied(directory, f"CQ500_{n_features}/CQ500_{ending}")
    return train, test, read_scans(path, n_features=n_features, rows_in_order=True)


def _checked(cnn: int) -> int:
    if cnn not in CNNS:
        raise InputError(f"cnn must be between 0 and {CNNS[-1]}, got {cnn}.")
    return cnn


def _published(directory: str | Path, name: str, verify: bool) -> Path:
    path = published.locate(directory, name)
    if verify:
        published.verify(path, name)
    return path


def _supplied(directory: str | Path, name: str) -> Path:
    folder = as_path(directory, "directory")
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise MissingFile(f"{name} was not found in {directory}. Ask the authors of the data for it, or check the folder.")

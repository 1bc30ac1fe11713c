"""Slides as CLAM and TRIDENT write them: a file per slide with features and coords, and a table of labels."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from psimil.data.bagtable import Slide
from psimil.data.chunks import read_csv
from psimil.data.columns import BagLabels, as_labels
from psimil.data.h5_file import h5_bytes, read_h5_arrays
from psimil.data.torch_file import read_tensors
from psimil.datasets.content import write_content
from psimil.datasets.labelled import LabelledBags, OneBag, check_bags, checked_names, coordinates, together
from psimil.files.paths import as_path
from psimil.foundations.arrays import Array
from psimil.foundations.errors import DataWarning, InputError, MissingFile, NoBagColumn
from psimil.model.bags import Bags
from psimil.model.features import as_real
from psimil.model.labels import UNKNOWN, ZERO_ONE, Classes

FEATURES, COORDS = "features", "coords"
SLIDE, LABEL = "slide_id", "label"
FARTHEST = 2.0**53  # pixels from the corner of a slide, which are whole numbers
IMAGES = frozenset("bif czi dcm isyntax mrxs ndpi qptiff scn svs svslide tif tiff vms vmu".split())
PLACES = ("pt_files/*.pt", "*.pt", "h5_files/*.h5", "*.h5")  # CLAM's folders; of one slide's files the last is read


def read_h5(
    directory: str | Path,
    labels: Mapping[str, int] | str | Path,
    *,
    bag: str = SLIDE,
    positive: str | None = None,
) -> LabelledBags:
    """Bags from a folder of ``<slide>.h5`` files, or of ``<slide>.pt`` files, which are read without running them.

    Parameters
    ----------
    directory : folder of the files, each with ``features`` (n, D) or (1, n, D); or CLAM's, with the folders
        ``h5_files`` or ``pt_files``. A ``.pt`` file holds one tensor, or a dict of tensors.
    labels : 0 or 1 by slide, or a CSV file with the columns ``slide_id`` and ``label``; slides that are not named
        there are not read. A slide ``s1`` may be called by its image there, such as ``s1.svs``.
    bag : column of the bags: ``slide_id``, or another of the CSV file such as ``case_id``, all slides of which are one
        bag. It is positive if one of its slides is; the instances of the others are then known to be negative.
    positive : the label of positive slides; needed unless labels are 0 and 1 or say it themselves.

    Returns
    -------
    data : bags in the order of ``labels``, y (B,), y_instances (N,) -1 where nothing is known.

    Raises
    ------
    MissingFile
        When a slide or the CSV file is not there.
    InputError
        When h5py is not installed, or a file is damaged, foreign, or breaks a rule.

    Examples
    --------
    >>> write_h5("slides", Bags.from_list([[[1.0], [2.0]], [[3.0]]], ids=["s1", "s2"]))
    >>> bags, y, _ = read_h5("slides", {"s1": 1, "s2": 0})
    >>> bags.ids.tolist(), bags["s1"].tolist(), y.tolist()
    (['s1', 's2'], [[1.0], [2.0]], [1, 0])
    """
    table = labels if isinstance(labels, Mapping) else as_path(labels, "labels")
    return together(SlideFolder(as_path(directory, "directory"), table, bag=bag, positive=positive))


def is_slides(root: Path) -> bool:
    """Whether a folder holds slides."""
    return any(next(root.glob(place), None) is not None for place in PLACES)


class SlideFolder:
    """The bags of a folder of slides, read one by one.

    Parameters
    ----------
    root : folder of the files.
    labels : as of :func:`read_h5`; None takes a CSV file in the folder that has a column ``slide_id``, and without one
        reads all slides, with unknown labels.
    bag, label : columns of the bags and of their labels.
    positive, classes, optional : of :class:`psimil.data.columns.BagLabels`.

    Attributes
    ----------
    classes : what the table calls negative and positive slides; None without labels.
    has_labels : whether there are labels.

    Examples
    --------
    >>> write_h5("slides", Bags.from_list([[[1.0]], [[2.0]]], ids=["s1", "s2"]))
    >>> [(slide.name, slide.label) for slide in SlideFolder(Path("slides"), {"s2": 1})]
    [('s2', 1)]
    """

    def __init__(
        self,
        root: Path,
        labels: Mapping[str, int] | str | Path | None = None,
        *,
        bag: str = SLIDE,
        label: str | None = None,
        positive: str | None = None,
        classes: Classes | None = None,
        optional: bool = False,
    ) -> None:
        self._root = root
        self.classes: Classes | None = classes or ZERO_ONE
        files: dict[str, list[Path]] = {}
        for path in (path for place in PLACES for path in sorted(root.glob(place))):
            files.setdefault(path.stem, []).append(path)
        self._files = {name: paths[-1] for name, paths in files.items()}
        source = labels if isinstance(labels, Mapping) else _table_in(root) if labels is None else labels
        if isinstance(source, (str, Path)):
            slides, bags, values = _read_table(as_path(source, "labels"), bag, label or LABEL, optional=optional)
        elif bag != SLIDE or label is not None:
            column = f"bag={bag!r}" if bag != SLIDE else f"label={label!r}"
            kind = NoBagColumn if bag != SLIDE else InputError
            raise kind(f"{column} needs a table of the slides: a CSV file with {SLIDE} in {root.name}.")
        else:
            slides, values = (sorted(self._files), None) if source is None else (list(source), [*source.values()])
            bags = slides
        found_as = [self._found_as(slide) for slide in slides]
        if twice := [slide for slide, n in Counter(found_as).items() if n > 1]:
            raise InputError(f"the labels name slide {twice[0]} twice, as {twice[0]} and by an image. Keep one.")
        slides, bags = found_as, found_as if bag == SLIDE else bags
        if not slides:
            raise InputError("labels are empty: 0 bags. Give at least 1 slide.")
        if isinstance(values, np.ndarray) and (values.dtype == object or positive is not None or classes is not None):
            found = BagLabels(positive, classes, optional=optional)
            found.look(values, np.arange(len(slides)), slides)
            self.classes, values = found.coded(len(slides))
        if several := [files[name] for name in slides if len(files.get(name, ())) > 1]:
            *others, read = (path.relative_to(root) for path in several[0])
            words = f"{len(several)} slides have several files, of which one is read. The first: {read}, and not"
            warnings.warn(f"{words} {', '.join(map(str, others))}.", DataWarning, stacklevel=3)
        left = len(self._files.keys() - set(slides))
        if left and labels is None:  # nobody chose some of them
            words = f"{left} of {len(self._files)} slides are not in the table of the folder and are left out."
            warnings.warn(words, DataWarning, stacklevel=3)
        self.has_labels = values is not None
        self.classes = self.classes if self.has_labels else None
        each = [UNKNOWN] * len(slides) if values is None else np.asarray(values).tolist()
        self._bags: dict[str, list[tuple[str, Any]]] = {}
        for name, slide, value in zip(bags, checked_names(slides), each, strict=True):
            self._bags.setdefault(str(name), []).append((slide, value))

    def __len__(self) -> int:
        """Number of bags."""
        return len(self._bags)

    def __iter__(self) -> Iterator[OneBag]:
        """One bag after another."""
        for name, slides in self._bags.items():
            of_slides = [value for _, value in slides]
            label = max(of_slides) if len(slides) > 1 else of_slides[0]
            read = [self._slide(slide) for slide, _ in slides]
            sizes, widths = zip(*(X.shape for X, _ in read), strict=True)
            if len(set(widths)) > 1:
                raise InputError(
                    f"the slides of bag {name} have {min(widths)} and {max(widths)} features. Use one encoder."
                )
            starts = np.cumsum([0, *sizes])
            places = [slide._replace(start=start) for (_, slide), start in zip(read, starts, strict=False) if slide]
            known = None
            if label == 1 and 0 in of_slides:
                known = np.repeat([0 if value == 0 else UNKNOWN for value in of_slides], sizes)
            X = read[0][0] if len(read) == 1 else np.concatenate([X for X, _ in read])
            yield OneBag(name, X, label, known, slides=tuple(places))

    def _found_as(self, slide: str) -> str:
        """The name that a slide has in the folder, which a table may call by its image, such as slide1.svs."""
        name, _, ending = slide.rpartition(".")
        return name if slide not in self._files and name in self._files and ending.lower() in IMAGES else slide

    def _slide(self, name: str) -> tuple[Array, Slide | None]:
        """(n, D) features of a slide, and where they were taken, if its file says so."""
        path = self._files.get(name)
        if path is None:
            plain, _, ending = name.rpartition(".")
            known = [name, plain] if ending.lower() in IMAGES and plain else [name]
            wanted = ", nor ".join(f"{each}{kind}" for each in known for kind in (".h5", ".pt"))
            first, _, others = wanted.partition(",")
            raise MissingFile(
                f"{first} was not found in {self._root},{others}. Add it or take the slide out of the labels."
            )
        said: dict[str, Array] = {}
        if path.suffix == ".pt":
            arrays = read_tensors(path, (FEATURES, COORDS))
            if FEATURES not in arrays:
                raise InputError(f'{path.name} holds a dict without "{FEATURES}".')
        else:
            arrays, said = read_h5_arrays(path, FEATURES, (COORDS,))
        arrays = {key: array[0] if array.ndim == 3 and len(array) == 1 else array for key, array in arrays.items()}
        X = arrays[FEATURES]
        if X.ndim != 2:
            raise InputError(f"{path.name}: {FEATURES} have shape {X.shape}, expected (instances, features).")
        if COORDS not in arrays:
            return as_real(X, path.name), None
        coords = arrays[COORDS]
        if coords.shape != (len(X), 2) or coords.dtype.kind not in "iuf" or not (np.abs(coords * 1.0) < FARTHEST).all():
            raise InputError(f"{path.name}: {COORDS} have shape {coords.shape}, expected ({len(X)}, 2) of numbers.")
        return as_real(X, path.name), Slide(name, 0, coords, said)


def write_h5(directory: str | Path, bags: Bags, coords: ArrayLike | None = None) -> None:
    """Write every bag as ``<bag>.h5`` with features and, if given, coords; each file appears complete or not at all.

    Parameters
    ----------
    directory : folder, made when it is not there; files of the same names are replaced.
    bags : N instances; the ids become file names.
    coords : (N, 2) coordinates of the instances, or None.

    Raises
    ------
    InputError
        When h5py is not installed, an id cannot be a file name, or coords do not fit.
    OutputError
        When a file cannot be written.

    Examples
    --------
    >>> write_h5("slides", Bags.from_list([[[1.0]]], ids=["s1"]), coords=[[0, 256]])
    >>> [path.name for path in Path("slides").iterdir()]
    ['s1.h5']
    """
    folder = as_path(directory, "directory")
    check_bags(bags)
    names = checked_names(bags.names)
    columns = {FEATURES: list(bags)}
    if coords is not None:
        columns[COORDS] = coordinates(coords, bags, "2")
    for number, name in enumerate(names):
        content = h5_bytes({key: arrays[number] for key, arrays in columns.items()})
        write_content(folder / f"{name}.h5", content)


def _table_in(root: Path) -> Path | None:
    """The table of slides that lies beside them; None without one."""
    found = [path for path in sorted(root.glob("*.csv")) if SLIDE in read_csv(path, text=SLIDE).columns]
    if len(found) > 1:
        raise InputError(
            f"{root.name} has {len(found)} tables with {SLIDE}: {found[0].name}, {found[1].name}. Keep one."
        )
    return found[0] if found else None


def _read_table(path: Path, bag: str, label: str, *, optional: bool) -> tuple[list[str], list[Any], Any]:
    """The slides of a CSV file with the bag and the label of each; no labels where they are optional and missing."""
    if not path.is_file():
        raise MissingFile(f"{path.name} was not found. Check the path.")
    frame, bags = read_csv(path, text=SLIDE), read_csv(path, text=bag)
    for column in (SLIDE, bag, *(() if optional else (label,))):
        if column not in frame.columns:
            kind = NoBagColumn if column == bag != SLIDE else InputError
            raise kind(f'{path.name} has no column "{column}". It needs {", ".join({SLIDE: 1, bag: 1, label: 1})}.')
    repeated = frame.loc[frame[SLIDE].duplicated(), SLIDE]
    if len(repeated):
        raise InputError(f"{path.name} names slide {repeated.iloc[0]} twice. Keep one row per slide.")
    without = frame.loc[bags[bag] == "", SLIDE]
    if len(without):
        raise InputError(f'{path.name}: slide {without.iloc[0]} has no bag (column "{bag}"). Fill it in.')
    values = as_labels(frame[label], label) if label in frame.columns else None
    return frame[SLIDE].tolist(), bags[bag].tolist(), values

"""Labels of scans as a file gives them, and which scans of a folder they are about."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from psimil.ct.scans.purpose import UNNAMED, Purpose
from psimil.foundations.errors import DataWarning, InputError

CQ500_NAME = re.compile(r"CQ500[-_ ]?CT[-_ ]?0*(\d+)", re.IGNORECASE)
SHOWN = 10  # rows that a warning lists


@dataclass(frozen=True)
class ScanNames:
    """What a scan may be called in a file of labels.

    Parameters
    ----------
    names : study UID, series UID, folder name, opaque id.
    slices : SOP instance UIDs of its slices.
    """

    names: tuple[str, ...]
    slices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScanLabels:
    """Labels as a file gives them, to be matched with the scans of a folder.

    Parameters
    ----------
    kind : "scans" for a plain CSV file, "rsna" or "cq500".
    scan_labels : 0 or 1 by scan, under the names of the file.
    slice_labels : 0 or 1 by SOP instance UID, for "rsna".
    rows : number of the line below the header of each; empty when there is no file.
    purpose : what label 1 means, as far as the file says it.

    Examples
    --------
    >>> labels = ScanLabels("scans", {"a": 1, "b": 0})
    >>> labels.match({"x": ScanNames(("1.2.3", "a")), "y": ScanNames(("1.2.4", "b"))})
    {'x': 1, 'y': 0}
    """

    kind: str
    scan_labels: dict[str, int] = field(default_factory=dict, repr=False)
    slice_labels: dict[str, int] = field(default_factory=dict, repr=False)
    rows: dict[str, int] = field(default_factory=dict, repr=False)
    purpose: Purpose = UNNAMED

    def named(self, names: Iterable[str]) -> int | None:
        """Label of the scan that has one of the names, None when the file has none of them.

        Examples
        --------
        >>> labels = ScanLabels("cq500", {"CQ500-CT-7": 1})
        >>> labels.named(["1.2.3", "CQ500CT7 CQ500CT7"]), labels.named(["CQ500CT70 CQ500CT70"])
        (1, None)
        """
        labels = {self.scan_labels[name] for name in self._spelt(names) if name in self.scan_labels}
        if len(labels) > 1:
            raise InputError("the file of labels gives one scan two labels, under two of its names; keep one of them.")
        return labels.pop() if labels else None

    def _spelt(self, names: Iterable[str]) -> Iterator[str]:
        """The names as this file would spell them."""
        for name in names:
            plain = name.strip(" \0")
            match = CQ500_NAME.search(plain) if self.kind == "cq500" else None
            yield plain if match is None else f"CQ500-CT-{match[1]}"

    def scan_label(self, slice_ids: Iterable[str]) -> int | None:
        """Label of a scan from those of its slices: 1 when one is 1, 0 when all are 0, None when that is not known.

        Examples
        --------
        >>> labels = ScanLabels("rsna", slice_labels={"ID_a": 0, "ID_b": 1})
        >>> labels.scan_label(["ID_a", "ID_b"]), labels.scan_label(["ID_a"]), labels.scan_label(["ID_a", "ID_c"])
        (1, 0, None)
        """
        labels = [self.slice_labels.get(slice_id.strip(" \0")) for slice_id in slice_ids]
        if 1 in labels:
            return 1
        return None if None in labels or not labels else 0

    def match(self, scans: Mapping[str, ScanNames], others: Iterable[ScanNames] = ()) -> dict[str, int]:
        """Labels of the scans that have one; warnings tell how many have none, and which labels have no scan.

        Parameters
        ----------
        scans : what each scan may be called, by id.
        others : of scans that are there but cannot be read.

        Returns
        -------
        labels : 0 or 1 by id, in the order of ``scans``.

        Raises
        ------
        InputError
            When no scan has a label, or one has two.
        """
        labels = {}
        for scan, called in scans.items():
            label = self.named(called.names)
            if label is None and self.slice_labels:
                label = self.scan_label(called.slices)
            if label is not None:
                labels[scan] = label
        if not labels:
            rule = {
                "rsna": "ID_ and the SOP instance UID of a slice",
                "cq500": "CQ500-CT- and a number, with folders such as CQ500CT7",
            }.get(self.kind, "study or series UIDs, folder names, or ids as psimil ct index shows them")
            raise InputError(f"no label matches any of the {len(scans)} scans; scans are matched by {rule}.")
        if len(labels) < len(scans):
            words = f"{len(scans) - len(labels)} of {len(scans)} scans have no label and are left out."
            warnings.warn(words, DataWarning, stacklevel=2)
        self._warn_of_unused([*scans.values(), *others])
        return labels

    def _warn_of_unused(self, scans: Iterable[ScanNames]) -> None:
        """Say which rows are about no scan; by their numbers, for names may tell who somebody is."""
        here = {name for scan in scans for name in self._spelt([*scan.names, *scan.slices])}
        given = [*self.scan_labels, *self.slice_labels]
        unused = [self.rows.get(name, place) for place, name in enumerate(given, start=1) if name not in here]
        if unused:
            numbers = ", ".join(map(str, unused[:SHOWN])) + (", ..." if len(unused) > SHOWN else "")
            words = (
                f"{len(unused)} of {len(given)} labels are of no scan in the folder, in rows {numbers} of their file."
            )
            warnings.warn(words, DataWarning, stacklevel=3)

"""A checkpoint: the last complete pass of a fit in a file, from which it goes on to the same bits."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from psimil.cluster.worker import store_fingerprint
from psimil.files.model_file import parameters_json
from psimil.files.paths import as_path
from psimil.files.schema import kernel_from, kernel_json
from psimil.files.sealed import checksum, seal, unseal
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.inference.bag_pass import BagBound, BagSums
from psimil.inference.options import Options, Parameters, Progress
from psimil.inference.preparation import Supervision
from psimil.inference.variational import Iterate
from psimil.model.bags import Bags
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.paper.ascent import Pass
from psimil.paper.passes import Bound, Statistics

KIND = "checkpoint"
FORMAT = 4  # 2 knew no stages, 3 had a seal of its own
MAX_BYTES = 2**32


@dataclass(frozen=True)
class Checkpoint:
    """A file that keeps the progress of one fit.

    Parameters
    ----------
    path : of the file.
    fit : digest of data, settings and seed; a file of another fit is refused.

    Examples
    --------
    >>> Checkpoint(Path("no-such-file"), "0" * 64).read() is None
    True
    """

    path: Path
    fit: str

    @classmethod
    def of_fit(
        cls,
        path: str | os.PathLike[str],
        bags: Bags,
        supervision: Supervision,
        options: Options,
        rng: np.random.Generator,
        batch_bags: int | None = None,
    ) -> Self:
        """The checkpoint of the fit that these describe."""
        names = [field.name for field in fields(Parameters) if field.name != "warm_start"]
        settings = {name: getattr(options, name) for name in names}
        points = settings.pop("inducing_points")
        facts = {**parameters_json(settings), "batch_bags": batch_bags, "rng": rng.bit_generator.state}
        arrays = {"offsets": bags.offsets, "T": supervision.T, "weights": supervision.weights}
        arrays |= {"points": points} if points is not None else {}
        arrays |= {"links": bags.links} if bags.links is not None else {}
        text = json.dumps(facts, sort_keys=True, default=_plain) + _rows_digest(bags)
        return cls(as_path(path, "checkpoint"), checksum(arrays, text))

    def write(self, progress: Progress) -> None:
        """Keep the progress in place of what was kept before, atomically."""
        record: Any = progress.record
        variational = isinstance(record, Iterate)
        sums = record.sums if variational else record.statistics
        named = {field.name: getattr(sums, field.name) for field in fields(sums)}
        tensors = {
            "inducing_points": record.gp.Z,
            "kernel_factor": record.gp.L,
            "posterior_mean": record.posterior.m,
            "precision_factor": record.posterior.R,
            **{name: value for name, value in named.items() if isinstance(value, np.ndarray)},
        }
        facts = {
            "format": FORMAT,
            "kind": KIND,
            "fit": self.fit,
            "stage": progress.stage,
            "step": record.step,
            "unfinished": record.unfinished,
            "weight": record.weight,
            "stage_of_steps": record.stage if variational else 0,
            "kernel": kernel_json(record.gp.kernel),
            "jitter": record.gp.jitter,
            "bias": record.gp.bias,
            "residual": record.gp.residual,
            "variational": variational,
            "sums": {name: float(value) for name, value in named.items() if name not in tensors},
            "bound": asdict(record.bound),
            "history": progress.history,
            "converged": progress.converged,
            "stopped": progress.stopped,
            "rng": progress.rng,
            "columns_first": [name for name, tensor in tensors.items() if not tensor.flags.c_contiguous],
        }
        plain = {name: np.ascontiguousarray(tensor, dtype=np.float64) for name, tensor in tensors.items()}
        seal(self.path, plain, json.loads(json.dumps(facts, default=_plain)), allow_nan=True)

    def read(self) -> Progress | None:
        """The progress that the file keeps, or None when there is no file.

        Raises
        ------
        InputError
            When the file is damaged, no checkpoint, or of another fit.
        """
        name = self.path.name
        if not self.path.exists():
            return None
        cure = "Name another file to begin anew."
        if not self.path.is_file() or self.path.stat().st_size > MAX_BYTES:
            raise InputError(f"{name} is not a checkpoint. {cure}")
        try:
            tensors, facts = unseal(self.path, KIND, FORMAT, max_bytes=MAX_BYTES)
        except InputError as error:
            raise InputError(f"{str(error).replace(KIND, f'{KIND} {name}', 1)} {cure}") from None
        if facts["format"] != FORMAT:
            raise InputError(f"{KIND} {name} was written by an earlier version of psimil. {cure}")
        if facts.get("fit") != self.fit:
            raise InputError(f"{KIND} {name} is of other data, settings or another seed. {cure}")
        try:
            return _progress(facts, tensors)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(f"{KIND} {name} is not valid: its content is no progress of a fit. {cure}") from None


def _progress(facts: dict[str, Any], tensors: dict[str, Array]) -> Progress:
    t = {name: np.asfortranarray(v) if name in facts["columns_first"] else v for name, v in tensors.items()}
    gp = SparseGP(
        kernel_from(facts["kernel"]).resolve(t["inducing_points"].shape[1]),
        t["inducing_points"],
        t["kernel_factor"],
        facts["jitter"],
        facts["bias"],
        facts["residual"],
    )
    q = Posterior(t["posterior_mean"], t["precision_factor"])
    made = {"step": facts["step"], "unfinished": facts["unfinished"], "weight": facts["weight"]}
    record: Pass | Iterate
    if facts["variational"]:
        bag_sums = BagSums(t["curvature"], t["gradient"], t["likelihood"], **facts["sums"])
        prior = Posterior.prior(gp.size)
        made["stage"] = facts["stage_of_steps"]
        record = Iterate(gp, q, bag_sums, BagBound(**facts["bound"]), None, prior, **made)
    else:
        sums = Statistics(t["V_theta_V"], t["V_kappa"], **facts["sums"])
        record = Pass(gp, q, sums, Bound(**facts["bound"]), **made)
    return Progress(facts["stage"], record, facts["history"], facts["converged"], facts["stopped"], rng=facts["rng"])


def _rows_digest(bags: Bags) -> str:
    from psimil.store import StoredBags

    return store_fingerprint(bags.path) if isinstance(bags, StoredBags) else checksum({"X": bags.X}, "")


def _plain(value: Any) -> Any:
    return value.tolist()  # of numpy

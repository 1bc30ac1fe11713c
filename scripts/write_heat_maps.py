"""Measure how often heat maps of phantoms point at the blood, and write docs/trust/heat-maps.md.

Run from the root of a checkout: ``python scripts/write_heat_maps.py docs`` measures and writes all of it (about ten
minutes, with torch installed); ``--page-only`` writes the page again from the table in docs/images; ``--quick`` has one
seed and few scans, for tests. No number in the page is typed by hand.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gap.page import facts_lines, markdown
from provenance import filled, keep_facts, provenance, read_facts, write_page

from psimil.ct.network.backbone import slice_tensor
from psimil.ct.network.extractor import FeatureExtractor
from psimil.ct.network.heat_maps import blurred_slices
from psimil.ct.phantom.head import Phantom, head
from psimil.ct.phantom.trial import EPOCHS, LESIONS, PIXELS, demo_pipeline
from psimil.ct.pipeline import CTPipeline
from psimil.ct.scans.scan import Scan
from psimil.figures import new_figure, plot_heat
from psimil.files.csv_table import write_table
from psimil.results.heat import shown_heat

SCRIPTS = ("scripts/write_heat_maps.py", "scripts/heat_maps")
TEXT = Path(__file__).parent / "heat_maps" / "text.md"
NETWORKS = {"trained": EPOCHS, "not trained": 1}
UNTRAINED_RATE = 1e-9  # of learning
COUNTS = ("both", "called without blood", "blood not called")


@dataclass(frozen=True)
class HeatSettings:
    """Seeds of the phantoms, and how many are learned from and predicted."""

    seeds: tuple[int, ...] = (60, 61, 62, 63, 64)
    train: int = 60
    test: int = 20


QUICK = HeatSettings((60,), 12, 2)


def scans_of(phantoms: list[Phantom]) -> list[Scan]:
    """Phantoms as the pipeline takes them."""
    return [Scan(str(b), one.hu, one.positions, one.spacing) for b, one in enumerate(phantoms)]


def trained(scans: list[Scan], y: np.ndarray, seed: int, network: str) -> CTPipeline:
    """The demo's pipeline; its network stays as it was drawn where it is not to be trained."""
    pipeline = demo_pipeline(seed).set_params(epochs=NETWORKS[network])
    if network == "trained":
        return pipeline.fit(scans, y)
    slices = pipeline._slices(scans)
    extractor = FeatureExtractor(size=pipeline.size, epochs=1, learning_rate=UNTRAINED_RATE, random_state=seed)
    pipeline.extractor_ = extractor.fit(slices, y)
    pipeline.gp_ = pipeline._fitted(pipeline.extractor_, slices, y, seed)
    return pipeline


def sum_error(pipeline: CTPipeline, slices: list[Any], maps: list[np.ndarray], wanted: np.ndarray) -> float:
    """How far the sums of maps are from m(x) - m(x'), beside the latter, over all slices that have a map."""
    network, gp = pipeline.extractor_.weights_.model, pipeline.gp_.model_
    sharp = slice_tensor(np.concatenate([one.images for one in slices])[wanted])
    ends = (sharp, torch.from_numpy(blurred_slices(sharp.numpy())))
    with torch.inference_mode():
        latent = [gp.latent(network.features(one).double().numpy(), raw=True)[0] for one in ends]
    expected, found = latent[0] - latent[1], np.concatenate(maps)[wanted].sum((1, 2))
    return float(np.abs(found - expected).sum() / np.abs(expected).sum())


def measured(settings: HeatSettings, seed: int, network: str, picture: Path | None) -> dict[str, Any]:
    """One row of the table."""
    rng = np.random.default_rng(seed)
    learn = [head(rng, positive=b % 2 == 1, lesions=LESIONS, size=PIXELS) for b in range(settings.train)]
    unseen = [head(rng, positive=True, lesions=LESIONS, size=PIXELS) for _ in range(settings.test)]
    pipeline = trained(scans_of(learn), np.arange(settings.train) % 2, seed, network)
    prediction = pipeline.predict_dist(scans_of(unseen))
    called = prediction.instance_label == 1
    truth = np.concatenate([one.truth for one in unseen]) == 1
    counted = called & truth if network == "trained" else truth  # what has not learned calls what it will
    wanted = called | counted
    exact = pipeline.heat_maps(scans_of(unseen), wanted)
    maps = [shown_heat(one, pipeline.size) for one in exact]
    factor = PIXELS // pipeline.size
    shown = np.concatenate(maps).repeat(factor, axis=1).repeat(factor, axis=2)
    blood = np.concatenate([one.blood for one in unseen])
    both = np.flatnonzero(counted)
    warmest = [np.unravel_index(shown[n].argmax(), shown[n].shape) for n in both]
    if picture is not None:
        b = int(prediction.prob.argmax())
        images = pipeline._slices(scans_of(unseen))[b].images[:, 0]
        drawn = plot_heat(prediction, b, images, maps[b], ax=new_figure(8.0, 6.5)).figure
        drawn.savefig(picture, dpi=110, bbox_inches="tight", metadata={"Software": None})
    return {
        "seed": seed,
        "network": network,
        "warmest place in blood": np.mean([blood[n][place] for n, place in zip(both, warmest, strict=True)]),
        "share of heat in blood": np.mean([shown[n][blood[n]].sum() / max(shown[n].sum(), 1) for n in both]),
        "share of slice that is blood": blood[both].mean(),
        "error of the sums": sum_error(pipeline, pipeline._slices(scans_of(unseen)), exact, wanted),
        **dict(zip(COUNTS, map(int, (len(both), (called & ~truth).sum(), (~called & truth).sum())), strict=True)),
    }


def page(rows: pd.DataFrame, facts: dict[str, Any]) -> str:
    """The page, from the table and facts."""
    settings = facts["heat maps"]["settings"]
    scores = [name for name in rows.columns if "blood" in name and name not in COUNTS]
    lines = []
    for network in NETWORKS:
        part = rows[rows["network"] == network]
        cells = [f"{part[k].mean():.3f} ({part[k].min():.3f} to {part[k].max():.3f})" for k in scores]
        lines.append([network, *cells, str(part["both"].sum())])
    known = rows[rows["network"] == "trained"][list(COUNTS)].sum()
    values = {
        "TRAIN": str(settings["train"]),
        "TEST": str(settings["test"]),
        "TABLE": markdown(["network", *scores, "slices"], lines),
        "ERROR": f"{100 * rows[rows['network'] == 'trained']['error of the sums'].mean():.1f} %",
        "FIGURE": "![Slices called positive under their heat maps](../images/heat-map.png)",
        "WRONG": f"{known[COUNTS[1]]} slices without blood were called here, beside {known[COUNTS[0]]} with it",
        "MISSED": f"here {known[COUNTS[2]]} slices with blood",
        "FACTS": facts_lines(facts),
    }
    return filled(TEXT, values)


def main() -> None:
    """Read the arguments, measure unless told not to, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--page-only", action="store_true", help="write from the table that is there")
    parser.add_argument("--quick", action="store_true", help="one seed and few scans")
    arguments = parser.parse_args()
    settings = QUICK if arguments.quick else HeatSettings()
    folder = arguments.docs / "images"
    folder.mkdir(parents=True, exist_ok=True)
    table, written = folder / "heat-maps.csv", folder / "heat-maps.json"
    if not arguments.page_only:
        facts, rows = {"heat maps": provenance(asdict(settings), SCRIPTS)}, []
        for seed in settings.seeds:
            for network in NETWORKS:
                first = seed == settings.seeds[0] and network == "trained"
                rows.append(measured(settings, seed, network, folder / "heat-map.png" if first else None))
        write_table(pd.DataFrame(rows).round(4), table)
        keep_facts(written, facts)
    write_page(arguments.docs / "trust" / "heat-maps.md", page(pd.read_csv(table), read_facts(written)))


if __name__ == "__main__":
    main()

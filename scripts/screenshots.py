"""Make the pictures of the viewer in docs/images, from synthetic scans: ``python scripts/screenshots.py [OUT]``.

The model is fitted to other synthetic scans, on three simple features; those in the pictures it has never seen.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from chromium import Visit, chromium
from psimil import VGPMIL
from psimil.ct.phantom.studies import PhantomFiles, write_phantoms
from psimil.ct.scans.cohort import ReadingRules
from psimil.ct.scans.index import index_folder
from psimil.ct.scans.scan import Scan
from psimil.ct.scans.series import read_series
from psimil.ct.scans.study import Series
from psimil.ct.scans.windows import BLOOD, apply_windows
from psimil.model.bags import Bags
from psimil.results.result_set import ResultSet
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.state import ViewerState
from psimil.viewer.volumes import volumes_of
from viewed import HASHER, image_results, serving

ROOT = Path(__file__).resolve().parents[1]
SCANS, SIZE, SEED = 14, 512, 3
OTHERS, OTHER_SEED = 24, 4  # scans that the model is fitted to
CARD = {"model": "VGPMIL", "kernel": "RBF", "features": "3 shares of pixels", "fitted to": f"{OTHERS} other scans"}
WIDE, PHONE = {"width": 1440, "height": 860}, {"width": 390, "height": 800}


def features(hu: np.ndarray) -> np.ndarray:
    """(S, 3) shares of blocks of 8 x 8 pixels like blood, like brain and like bone in the middle of each slice."""
    edge = hu.shape[1] // 4
    middle = hu[:, edge:-edge, edge:-edge]
    blocks = middle.reshape(len(hu), middle.shape[1] // 8, 8, middle.shape[2] // 8, 8).mean((2, 4)).reshape(len(hu), -1)
    ranges = ((50, 90), (20, 45), (100, 3000))
    return np.stack([np.sqrt(((blocks > low) & (blocks < high)).mean(1)) for low, high in ranges], axis=1)


class Read(NamedTuple):
    """Synthetic scans with what is known about them."""

    series: list[Series]
    scans: list[Scan]
    bags: Bags
    labels: np.ndarray


def read(files: PhantomFiles) -> Read:
    """The scans of a folder and their features."""
    label_of = dict(line.split(",") for line in files.scans.read_text().splitlines()[1:])
    labels_by_id = {HASHER(uid): int(label) for uid, label in label_of.items()}
    series = [
        next(part for part in study.series if part.usable)
        for study in index_folder(files.studies, hasher=HASHER).studies
    ]
    scans = [read_series(part) for part in series]
    labels = np.array([labels_by_id[part.study_id] for part in series])
    bags = Bags.from_list([features(scan.hu) for scan in scans], ids=[part.study_id for part in series])
    return Read(series, scans, bags, labels)


def scan_results(shown: Read, others: Read) -> ResultSet:
    """What a model that was fitted to other scans predicts for those that are shown."""
    if set(shown.bags.names) & set(others.bags.names):
        raise SystemExit("a scan that is shown was also fitted to")
    model = VGPMIL(n_inducing=20, random_state=0).fit(others.bags, others.labels)
    images = np.concatenate([apply_windows(scan.hu, (BLOOD,), size=96)[:, 0] for scan in shown.scans])
    return ResultSet.of(
        model.predict_dist(shown.bags), kind="ct", truth=shown.labels,
        positions=np.concatenate([scan.positions for scan in shown.scans]),
        images=np.rint(255 * images).astype(np.uint8), series=tuple(part.id for part in shown.series), model=CARD,
    )  # fmt: skip


def phantoms(folder: Path, count: int, seed: int) -> PhantomFiles:
    """Synthetic scans in a folder, made when it is not there."""
    files = PhantomFiles(folder / "studies", folder / "scans.csv", folder / "truth.csv")
    return files if files.scans.exists() else write_phantoms(folder, count, size=SIZE, seed=seed)


def keep(page, path: Path) -> None:
    """Write the window of the browser as a PNG with few colours, which is small."""
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path.name, f"{path.stat().st_size // 1024} KB")


def scan_pages(browser, settings, out: Path) -> None:
    """Worklist and scan, light, dark and on a phone."""
    for name, options in {
        "light": {"viewport": WIDE, "color_scheme": "light"},
        "dark": {"viewport": WIDE, "color_scheme": "dark"},
        "phone": {"viewport": PHONE, "color_scheme": "light", "is_mobile": True, "has_touch": True},
    }.items():
        visited = Visit(browser, settings, reduced_motion="reduce", **options)
        keep(visited.page, out / f"viewer-worklist-{name}.png")
        page = visited.open()
        visited.shown(int(page.locator("#slider").input_value()) - 1)
        keep(page, out / f"viewer-scan-{name}.png")
        visited.close()


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=ROOT / "docs" / "images")
    parser.add_argument("--phantoms", type=Path, help="folder of scans to use again; made when it is not there")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, chromium() as browser:
        folder = chosen.phantoms or Path(made) / "phantoms"
        files = phantoms(folder, SCANS, SEED)
        results = scan_results(
            read(files), read(phantoms(folder.with_name(f"{folder.name}-fitted"), OTHERS, OTHER_SEED))
        )
        volumes = volumes_of(files.studies, results.series, ReadingRules(), HASHER)
        with serving(ViewerState(results, FeedbackStore(Path(made)), volumes)) as settings:
            scan_pages(browser, settings, chosen.out)
        with serving(ViewerState(image_results(), FeedbackStore(Path(made) / "images"))) as settings:
            visited = Visit(browser, settings, viewport=WIDE, reduced_motion="reduce")
            visited.open()
            keep(visited.page, chosen.out / "viewer-images.png")
            visited.close()


if __name__ == "__main__":
    main()

"""Make the pictures of the viewer in docs/images, from synthetic scans: ``python scripts/screenshots.py [OUT]``.

The model was fitted to the same scans on three simple features, so its numbers say nothing about its quality.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chromium import Visit, chromium
from psimil import VGPMIL
from psimil.ct.cohort import ReadingRules
from psimil.ct.index import index_folder
from psimil.ct.phantom_files import PhantomFiles, write_phantoms
from psimil.ct.series import read_series
from psimil.ct.windows import BLOOD, apply_windows
from psimil.model.bags import Bags
from psimil.result_set import ResultSet
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.viewed import Viewed
from psimil.viewer.volumes import volumes_of
from viewed import HASHER, image_results, serving

ROOT = Path(__file__).resolve().parents[1]
SCANS, SIZE, SEED = 14, 512, 3
CARD = {"model": "VGPMIL", "kernel": "RBF", "features": "3 shares of pixels", "fitted to": "these synthetic scans"}
WIDE, PHONE = {"width": 1440, "height": 860}, {"width": 390, "height": 800}


def features(hu: np.ndarray) -> np.ndarray:
    """(S, 3) shares of blocks of 8 x 8 pixels like blood, like brain and like bone in the middle of each slice."""
    edge = hu.shape[1] // 4
    middle = hu[:, edge:-edge, edge:-edge]
    blocks = middle.reshape(len(hu), middle.shape[1] // 8, 8, middle.shape[2] // 8, 8).mean((2, 4)).reshape(len(hu), -1)
    ranges = ((50, 90), (20, 45), (100, 3000))
    return np.stack([np.sqrt(((blocks > low) & (blocks < high)).mean(1)) for low, high in ranges], axis=1)


def scan_results(files: PhantomFiles) -> ResultSet:
    """What is predicted for the synthetic scans."""
    label_of = dict(line.split(",") for line in files.scans.read_text().splitlines()[1:])
    labels_by_id = {HASHER(uid): int(label) for uid, label in label_of.items()}
    series = [
        next(part for part in study.series if part.usable)
        for study in index_folder(files.studies, hasher=HASHER).studies
    ]
    scans = [read_series(part) for part in series]
    labels = np.array([labels_by_id[part.study_id] for part in series])
    bags = Bags.from_list([features(scan.hu) for scan in scans], ids=[part.study_id for part in series])
    prediction = VGPMIL(n_inducing=10, random_state=0).fit(bags, labels).predict_dist(bags)
    images = np.concatenate([apply_windows(scan.hu, (BLOOD,), size=96)[:, 0] for scan in scans])
    return ResultSet.of(
        prediction, kind="ct", truth=labels, positions=np.concatenate([scan.positions for scan in scans]),
        images=np.rint(255 * images).astype(np.uint8), series=tuple(part.id for part in series), model=CARD,
    )  # fmt: skip


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
        files = PhantomFiles(folder / "studies", folder / "scans.csv", folder / "truth.csv")
        if not files.scans.exists():
            files = write_phantoms(folder, SCANS, size=SIZE, seed=SEED)
        results = scan_results(files)
        volumes = volumes_of(files.studies, results.series, ReadingRules(), HASHER)
        with serving(Viewed(results, FeedbackStore(Path(made)), volumes)) as settings:
            scan_pages(browser, settings, chosen.out)
        with serving(Viewed(image_results(), FeedbackStore(Path(made) / "images"))) as settings:
            visited = Visit(browser, settings, viewport=WIDE, reduced_motion="reduce")
            visited.open()
            keep(visited.page, chosen.out / "viewer-images.png")
            visited.close()


if __name__ == "__main__":
    main()

"""The viewer with a study of 300 slices of 512 x 512 in a real browser: first slice, next slices, memory of the server.

``--serve FOLDER`` is how the benchmark starts its server, in a process of its own so that its memory can be read.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from pydicom import dcmread
from timing import last_line

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chromium import Visit, chromium, why_not
from psimil.ct.phantom.studies import write_phantoms
from psimil.ct.scans.cohort import ReadingRules
from psimil.ct.scans.index import index_folder
from psimil.ct.scans.series import read_series
from psimil.ct.scans.windows import BLOOD, apply_windows
from psimil.predictive.aggregates import Largest
from psimil.predictive.moments import instance_moments
from psimil.predictive.prediction import Prediction
from psimil.results.result_set import ResultSet
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.settings import Settings
from psimil.viewer.state import ViewerState
from psimil.viewer.volumes import volumes_of
from viewed import CARD, HASHER, serving

SLICES, SIZE, TOKEN = 300, 512, "benchmark"
# The time of the first frame with the whole slice, counted from the start of the navigation.
FIRST = """() => { new MutationObserver((_, observer) => {
  if (document.getElementById('canvas')?.dataset.shown) { observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { document.body.dataset.first = performance.now(); })); } })
  .observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-shown'] }); }"""
# Milliseconds from each key press to the frame that shows the slice, with a pause between the keys.
STEPS = """async ([count, pause]) => {
  const canvas = document.getElementById('canvas'), times = [];
  for (let step = 0; step < count; step += 1) {
    const wanted = String(Number(document.getElementById('slider').value)), start = performance.now();
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
    while (canvas.dataset.shown !== wanted) await new Promise(requestAnimationFrame);
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - start);
    await new Promise(done => setTimeout(done, pause));
  }
  return times; }"""


def write_study(folder: Path) -> None:
    """300 files with distinct UIDs and positions, from the slices of a phantom in turn."""
    with tempfile.TemporaryDirectory() as made:
        paths = sorted(next(write_phantoms(made, 1, size=SIZE, share=1.0).studies.iterdir()).glob("*.dcm"))
        slices = [d for d in map(dcmread, paths) if "LOCALIZER" not in d.ImageType]
    for place in range(SLICES):
        dataset = slices[place % len(slices)]
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{place}"
        dataset.ImagePositionPatient = [0, 0, 0.5 * place]
        dataset.save_as(folder / f"{place:03d}.dcm")


def results_of(folder: Path) -> ResultSet:
    """A prediction with one rise in the middle."""
    series = index_folder(folder, hasher=HASHER).studies[0].series[0]
    scan = read_series(series)
    latent = 6 * np.exp(-(((np.arange(SLICES) - 140) / 12) ** 2)) - 4
    variance = np.full(SLICES, 0.8)
    ids, offsets, instances = np.array([series.study_id]), np.array([0, SLICES]), instance_moments(latent, variance)
    bags = Largest().moments(instances, offsets)
    prediction = Prediction(ids, offsets, None, latent, variance, instances, bags, "max")
    images = np.rint(255 * apply_windows(scan.hu, (BLOOD,), size=96)[:, 0]).astype(np.uint8)
    return ResultSet.of(
        prediction, kind="ct", positions=scan.positions, images=images, series=(series.id,), model=CARD
    )  # fmt: skip


def serve(folder: Path) -> None:
    """Serve until the process ends; the study is read when its first slice is asked for."""
    results = results_of(folder)
    volumes = volumes_of(folder, results.series, ReadingRules(), HASHER)
    with (
        tempfile.TemporaryDirectory() as own,
        serving(ViewerState(results, FeedbackStore(Path(own)), volumes), TOKEN) as s,
    ):
        print(s.port, flush=True)
        sys.stdin.read()


def resident(process: subprocess.Popen) -> float:
    """MB of memory that a process holds."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def busy(process: subprocess.Popen) -> float:
    """Seconds that a process has computed; unlike the clock, they do not depend on what else the machine does."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_slice(visited: Visit) -> float:
    """Milliseconds from the navigation to the first slice on the screen."""
    visited.context.add_init_script(f"({FIRST})()")
    visited.open()
    return float(visited.page.wait_for_selector("body[data-first]").get_attribute("data-first"))


def asked(page, count: int) -> float:
    """Seconds of ``count`` requests for slices, one after the other."""
    script = """async count => { const base = '/api/bags/' + location.pathname.split('/').pop() + '/slices/';
                for (let n = 0; n < count; n += 1) await (await fetch(base + (7 * n) % 300)).arrayBuffer(); }"""
    start = time.perf_counter()
    page.evaluate(script, count)
    return time.perf_counter() - start


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path)
    chosen = parser.parse_args()
    if chosen.serve:
        return serve(chosen.serve)
    if why_not():
        return last_line(skipped=why_not())
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        write_study(Path(folder))
        command = [sys.executable, __file__, "--serve", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            settings = Settings(int(server.stdout.readline()), token=TOKEN)
            cold = first_slice(Visit(browser, settings))
            visited = Visit(browser, settings)
            warm = first_slice(visited)
            page = visited.page
            page.keyboard.press("Home")
            page.wait_for_timeout(1000)
            steady, flat_out = page.evaluate(STEPS, [60, 80]), page.evaluate(STEPS, [150, 0])
            asked(page, 100)
            before, computed = resident(server), busy(server)
            seconds = asked(page, 1000)
            after, computed = resident(server), busy(server) - computed
            server.stdin.close()
    print(f"first slice: {cold:.0f} ms when the study must be read, {warm:.0f} ms when it is in memory (bar: 1000)")
    for name, times in (("a key every 80 ms", steady), ("keys without pause", flat_out)):
        print(f"next slice, {name}: median {np.median(times):.1f} ms, 95 % {np.quantile(times, 0.95):.1f} ms (bar: 50)")
    print(f"1000 slices: {seconds:.1f} s, of which the server computes {computed:.1f} s")
    print(f"memory of the server: {before:.0f} MB before, {after:.0f} MB after")
    last_line(
        first_slice_cold_ms=cold, first_slice_warm_ms=warm, next_slice_ms=float(np.median(steady)),
        next_slice_p95_ms=float(np.quantile(steady, 0.95)), flat_out_ms=float(np.median(flat_out)),
        slices_per_second=1000 / seconds, server_cpu_ms_per_slice=computed, rss_before_mb=before, rss_after_mb=after,
    )  # fmt: skip


if __name__ == "__main__":
    main()

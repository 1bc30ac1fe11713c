"""Windows and features of 512 x 512 studies: slices per second, and how many cores are busy."""

import argparse
import time

import numpy as np
import torch
from timing import last_line

from psimil.ct.network.attcnn import AttCNN
from psimil.ct.network.extractor import FeatureExtractor
from psimil.ct.network.weights import Weights
from psimil.ct.scans.windows import WINDOWS


def extractor(size: int) -> FeatureExtractor:
    """An extractor whose weights are as drawn; the work does not depend on them."""
    found = FeatureExtractor(size=size)
    found.weights_ = Weights(AttCNN(found.n_features).eval(), WINDOWS, size)
    return found


def steps(scans: int, slices: int, size: int) -> dict[str, float]:
    """Seconds on the clock and on all cores for the features of ``scans`` studies."""
    rng = np.random.default_rng(0)
    hu = rng.integers(-1000, 200, (slices, 512, 512)).astype(np.int16)
    found = extractor(size)
    found.transform([hu])
    wall, cpu = time.perf_counter(), time.process_time()
    found.transform(hu for _ in range(scans))
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def training_step(slices: int, size: int) -> float:
    """Seconds of the fastest of ten gradients of one scan on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, images, seconds = AttCNN(), torch.rand(slices, 3, size, size), []
    for _ in range(10):
        start = time.perf_counter()
        torch.autograd.grad(model(images).logit.sum(), list(model.parameters()))
        seconds.append(time.perf_counter() - start)
    torch.set_num_threads(threads)
    return min(seconds)


def main() -> None:
    """Print the figures; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scans", type=int, default=20)
    parser.add_argument("--slices", type=int, default=35)
    parser.add_argument("--size", type=int, default=96)
    arguments = parser.parse_args()
    found = steps(arguments.scans, arguments.slices, arguments.size)
    cores, rate = found["cpu"] / found["wall"], arguments.scans * arguments.slices / found["wall"]
    step = training_step(28, arguments.size)
    print(f"{torch.get_num_threads()} threads: {rate:.0f} slices per second, {cores:.2f} cores busy")
    print(f"gradient of a scan of 28 slices at {arguments.size} x {arguments.size}, one thread: {1e3 * step:.0f} ms")
    last_line(benchmark="ct_features", cores=cores, slices_per_second=rate, gradient_ms=1e3 * step)


if __name__ == "__main__":
    main()

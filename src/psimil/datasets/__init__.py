"""Datasets: MUSK is embedded, MNIST is read from a folder the user names, synthetic bags are drawn."""

from psimil.datasets.idx import read_idx
from psimil.datasets.mnist import LabelledBags, MnistBags, MnistSplit, load_mnist, mnist_bags, mnist_split
from psimil.datasets.musk import load_musk1, load_musk2
from psimil.datasets.synthetic import make_bags

__all__ = [
    "LabelledBags",
    "MnistBags",
    "MnistSplit",
    "load_mnist",
    "load_musk1",
    "load_musk2",
    "make_bags",
    "mnist_bags",
    "mnist_split",
    "read_idx",
]

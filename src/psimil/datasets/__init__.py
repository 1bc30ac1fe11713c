"""Datasets: MUSK and small digits are embedded; MNIST, CT features and files of other tools are read from a folder."""

from psimil.datasets.classic import read_classic
from psimil.datasets.digits import DigitBags, digits_bags
from psimil.datasets.files import fetch, locate, verify
from psimil.datasets.h5 import read_h5, write_h5
from psimil.datasets.ich import load_cq500, load_ich_pair, load_rsna, load_rsna_training
from psimil.datasets.idx import read_idx
from psimil.datasets.labelled import LabelledBags
from psimil.datasets.mnist import MnistSplit, load_mnist, mnist_features, mnist_split
from psimil.datasets.mnist_recipes import MnistBags, authors_mnist_bags, mnist_bags
from psimil.datasets.musk import load_musk1, load_musk2
from psimil.datasets.scans import Scans
from psimil.datasets.synthetic import make_bags
from psimil.datasets.torchmil import read_torchmil, write_torchmil

__all__ = [
    "DigitBags",
    "LabelledBags",
    "MnistBags",
    "MnistSplit",
    "Scans",
    "authors_mnist_bags",
    "digits_bags",
    "fetch",
    "load_cq500",
    "load_ich_pair",
    "load_mnist",
    "load_musk1",
    "load_musk2",
    "load_rsna",
    "load_rsna_training",
    "locate",
    "make_bags",
    "mnist_bags",
    "mnist_features",
    "mnist_split",
    "read_classic",
    "read_h5",
    "read_idx",
    "read_torchmil",
    "verify",
    "write_h5",
    "write_torchmil",
]

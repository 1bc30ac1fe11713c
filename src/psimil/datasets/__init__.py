"""Datasets: MUSK and small digits are embedded; MNIST, CT features and files of other tools are read from a folder."""

from psimil.datasets.classic import load_musk1 as load_musk1
from psimil.datasets.classic import load_musk2 as load_musk2
from psimil.datasets.classic import read_classic as read_classic
from psimil.datasets.ich import load_cq500 as load_cq500
from psimil.datasets.ich import load_ich_pair as load_ich_pair
from psimil.datasets.ich import load_rsna as load_rsna
from psimil.datasets.ich import load_rsna_training as load_rsna_training
from psimil.datasets.labelled import LabelledBags as LabelledBags
from psimil.datasets.mnist import MnistSplit as MnistSplit
from psimil.datasets.mnist import load_mnist as load_mnist
from psimil.datasets.mnist import mnist_features as mnist_features
from psimil.datasets.mnist import mnist_split as mnist_split
from psimil.datasets.mnist import read_idx as read_idx
from psimil.datasets.published import fetch as fetch
from psimil.datasets.published import locate as locate
from psimil.datasets.published import verify as verify
from psimil.datasets.recipes import DigitBags as DigitBags
from psimil.datasets.recipes import MnistBags as MnistBags
from psimil.datasets.recipes import authors_mnist_bags as authors_mnist_bags
from psimil.datasets.recipes import digits_bags as digits_bags
from psimil.datasets.recipes import make_bags as make_bags
from psimil.datasets.recipes import mnist_bags as mnist_bags
from psimil.datasets.scans import Scans as Scans
from psimil.datasets.slides import read_h5 as read_h5
from psimil.datasets.slides import write_h5 as write_h5
from psimil.datasets.torchmil import read_torchmil as read_torchmil
from psimil.datasets.torchmil import write_torchmil as write_torchmil

__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")]

"""Published files that are not embedded: their folder, exact content and address."""

from dataclasses import dataclass

_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
_FEATURES = "https://raw.githubusercontent.com/wizmik12/DGPMIL/cab50ecfb2673be80017d0f3dbcc65a0a7d7b20f/data/"
_ORDER = "https://raw.githubusercontent.com/YunanWu2168/SA-MIL/3629d6aad9fcb2cce26fad7ac7788aaff700ad01/tables/"


@dataclass(frozen=True)
class Published:
    """A file as its authors published it.

    Parameters
    ----------
    folder : sub-folder of a data directory in which it is kept.
    size : bytes of the uncompressed content.
    sha256 : of the uncompressed content, so that every gzip of it passes.
    url : where it can be downloaded, gzipped or plain.
    """

    folder: str
    size: int
    sha256: str
    url: str


PUBLISHED = {
    "train-images-idx3-ubyte": Published(
        "mnist",
        47_040_016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        f"{_MNIST}train-images-idx3-ubyte.gz",
    ),
    "train-labels-idx1-ubyte": Published(
        "mnist",
        60_008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        f"{_MNIST}train-labels-idx1-ubyte.gz",
    ),
    "t10k-images-idx3-ubyte": Published(
        "mnist",
        7_840_016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        f"{_MNIST}t10k-images-idx3-ubyte.gz",
    ),
    "t10k-labels-idx1-ubyte": Published(
        "mnist",
        10_008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        f"{_MNIST}t10k-labels-idx1-ubyte.gz",
    ),
    "rsna_f8_cnn0.csv": Published(
        "ich",
        703_891,
        "fbe721a6d81ff5191f4553282b6b3e4fc6860748deef31e8ecd76eb42f293cbb",
        f"{_FEATURES}RSNA_test/CT_feature_final_8_0.csv",
    ),
    "rsna_f8_cnn1.csv": Published(
        "ich",
        719_761,
        "2f80054cb50a910ff19596468a192d1dc93fd470645d49e4617e1e9307fe28c2",
        f"{_FEATURES}RSNA_test/CT_feature_final_8_1.csv",
    ),
    "rsna_f8_cnn2.csv": Published(
        "ich",
        714_200,
        "cc9e59238f981d4c539bbcd31abb1b3d2bda9bbfa96cc1cc1863e9bde3228a01",
        f"{_FEATURES}RSNA_test/RSNAadded_test_2.csv",
    ),
    "rsna_f8_cnn3.csv": Published(
        "ich",
        704_474,
        "debc3028dadc045d2c983af6ba9123564b17f625a6b385484dd9bdab8a2f4472",
        f"{_FEATURES}RSNA_test/RSNAadded_test_3.csv",
    ),
    "rsna_f8_cnn4.csv": Published(
        "ich",
        712_350,
        "76273bbc6290cbeef6616ced44d881723dd193f22dbdf7f1328e06166910c3fa",
        f"{_FEATURES}RSNA_test/RSNA_added_test_4.csv",
    ),
    "cq500_f8_cnn0.csv": Published(
        "ich",
        2_720_617,
        "d42b9982aa8b0be2943f233c209452055ed43dae591eebfc3b7d4686d64b4dae",
        f"{_FEATURES}CQ500_test/CQ500_0.csv",
    ),
    "cq500_f8_cnn1.csv": Published(
        "ich",
        2_778_099,
        "d56c0f7e74985166e2d06634b7807d3f525ce10e5078654a165ff26bf05adf11",
        f"{_FEATURES}CQ500_test/CQ500_1.csv",
    ),
    "cq500_f8_cnn2.csv": Published(
        "ich",
        2_750_113,
        "9397a8134fabaa879e21d29f288c170ed87b08b90d6fb21256a380183d3d5e9e",
        f"{_FEATURES}CQ500_test/CQ_added_2.csv",
    ),
    "cq500_f8_cnn3.csv": Published(
        "ich",
        2_703_651,
        "c05cd518cee35f466790ac786bf7bd143988da5a11f483dd1a58948a5b5ec118",
        f"{_FEATURES}CQ500_test/CQ_added_3.csv",
    ),
    "cq500_f8_cnn4.csv": Published(
        "ich",
        2_741_254,
        "f4282d3e585c2c085c68b521b25ef4ee443296362fbd7c1944b6604a20d13726",
        f"{_FEATURES}CQ500_test/CQ_added_4.csv",
    ),
    "rsna_slice_order.csv": Published(
        "ich",
        203_461,
        "a11585d83e88759ddfbf51cca9ed0251a42137f2d37fc0ebbd907046b5bdc787",
        f"{_ORDER}testing_example.csv",
    ),
}

"""Folders of CLAM and TRIDENT: labels in words, patients of several slides, tensors beside HDF5."""

import shutil

import numpy as np
import pytest

from psimil import Bags, datasets, read_bags
from psimil.foundations.errors import DataWarning, InputError, MissingFile
from psimil.model.labels import Classes
from psimil.store import import_bags, open_store

NO_COORDS = "a store has no coords, those of 3 slides are not kept"

h5py = pytest.importorskip("h5py")


@pytest.fixture
def slides(tmp_path):
    """Three slides of two patients, as ``.h5`` files with coords, and CLAM's table of them."""
    bags = Bags.from_list([[[1.0], [2.0]], [[3.0]], [[4.0], [5.0]]], ids=["s1", "s2", "s3"])
    datasets.write_h5(tmp_path / "slides", bags, coords=np.arange(10).reshape(5, 2))
    text = "case_id,slide_id,label\n07,s1,normal_tissue\n07,s2,tumor_tissue\n8,s3,normal_tissue\n"
    (tmp_path / "slides" / "dataset.csv").write_text(text)
    return tmp_path / "slides"


def test_labels_in_words(slides):
    bags, y, known = datasets.read_h5(slides, slides / "dataset.csv", positive="tumor_tissue")
    assert bags.ids.tolist() == ["s1", "s2", "s3"]
    assert y.tolist() == [0, 1, 0]
    assert known.tolist() == [-1] * 5
    assert datasets.read_h5(slides, slides / "dataset.csv", positive="normal_tissue").y.tolist() == [1, 0, 1]


def test_tables_may_name_the_images_of_slides(slides, tmp_path):
    table = slides / "dataset.csv"
    plain = read_bags(slides, positive="tumor_tissue")
    table.write_text(table.read_text().replace("s1", "s1.svs").replace("s2", "s2.NDPI"))
    named = read_bags(slides, positive="tumor_tissue")
    assert named.bags.ids.tolist() == plain.bags.ids.tolist() and named.y.tolist() == plain.y.tolist()
    assert [slide.name for slide in named.slides] == ["s1", "s2", "s3"]
    with pytest.warns(DataWarning, match=NO_COORDS):
        assert import_bags(slides, tmp_path / "store", bag="case_id", positive="tumor_tissue").bags == 2
    assert datasets.read_h5(slides, {"s3.svs": 1, "s1": 0}).bags.ids.tolist() == ["s3", "s1"]
    shutil.copy(slides / "s3.h5", slides / "s1.svs.h5")  # a file of the very name comes first
    assert datasets.read_h5(slides, {"s1.svs": 1, "s2.svs": 0}).bags.ids.tolist() == ["s1.svs", "s2"]
    with pytest.raises(InputError, match=r"^the labels name slide s2 twice, as s2 and by an image\. Keep one\.$"):
        datasets.read_h5(slides, {"s2.svs": 1, "s2": 0})
    with pytest.raises(MissingFile, match=r"s2\.jpeg\.h5 was not found"):
        datasets.read_h5(slides, {"s2.jpeg": 1})
    said = r"^s9\.svs\.h5 was not found in .*slides, nor s9\.svs\.pt, nor s9\.h5, nor s9\.pt\. Add it or take"
    with pytest.raises(MissingFile, match=said):
        datasets.read_h5(slides, {"s9.svs": 1})


def test_a_patient_is_the_bag_of_all_slides(slides):
    bags, y, known = datasets.read_h5(slides, slides / "dataset.csv", bag="case_id", positive="tumor_tissue")
    assert bags.ids.tolist() == ["07", "8"]
    assert bags["07"].tolist() == [[1.0], [2.0], [3.0]]
    assert y.tolist() == [1, 0]
    assert known.tolist() == [0, 0, -1, -1, -1]  # the patches of a negative slide of a positive patient


def test_slides_of_a_patient_of_two_encoders(slides):
    with h5py.File(slides / "s2.h5", "w") as file:
        file["features"] = np.ones((2, 7))
    with pytest.raises(InputError, match=r"the slides of bag 07 have 1 and 7 features. Use one encoder"):
        datasets.read_h5(slides, slides / "dataset.csv", bag="case_id", positive="tumor_tissue")


def test_a_folder_of_slides_is_read_as_a_table(slides):
    table = read_bags(slides, positive="tumor_tissue")
    assert table.classes == ("normal_tissue", "tumor_tissue")
    assert table.labels.tolist() == ["normal_tissue", "tumor_tissue", "normal_tissue"]
    assert table.y_instances is None
    assert [(slide.name, slide.rows) for slide in table.slides] == [
        ("s1", slice(0, 2)),
        ("s2", slice(2, 3)),
        ("s3", slice(3, 5)),
    ]
    patients = read_bags(slides, bag="case_id", positive="tumor_tissue")
    assert [slide.rows for slide in patients.slides] == [slide.rows for slide in table.slides]
    assert patients.y_instances.tolist() == [0, 0, -1, -1, -1]
    np.testing.assert_array_equal(np.concatenate([slide.coords for slide in table.slides]), np.arange(10).reshape(5, 2))


def test_tables_are_optional_where_labels_are(slides):
    (slides / "dataset.csv").unlink()
    table = read_bags(slides)
    assert table.y is None
    assert table.bags.ids.tolist() == ["s1", "s2", "s3"]
    for column in ({"bag": "case_id"}, {"label": "grade"}):
        with pytest.raises(InputError, match=r"needs a table of the slides: a CSV file with slide_id in slides"):
            read_bags(slides, **column)
    (slides / "dataset.csv").write_text("slide_id,case_id\ns1,a\ns3,a\n")
    with pytest.warns(DataWarning, match="1 of 3 slides are not in the table"):
        assert read_bags(slides, bag="case_id", labels_optional=True).bags.ids.tolist() == ["a"]
    with pytest.raises(InputError, match=r'dataset.csv has no column "label". It needs slide_id, case_id, label'):
        read_bags(slides, bag="case_id")
    (slides / "dataset.csv").write_text("slide_id,case_id\ns1,a\ns3,\n")
    with pytest.raises(InputError, match='slide s3 has no bag \\(column "case_id"\\)'):
        read_bags(slides, bag="case_id", labels_optional=True)
    (slides / "other.csv").write_text("slide_id,label\ns1,1\n")
    with pytest.raises(InputError, match=r"has 2 tables with slide_id: dataset.csv, other.csv"):
        read_bags(slides)


def test_labels_that_a_model_does_not_know(slides):
    with pytest.raises(InputError, match="label of bag s1 is 'normal_tissue'; the classes are 0 and 1"):
        read_bags(slides, classes=Classes(0, 1))
    with pytest.warns(DataWarning, match="labels are not used"):
        assert read_bags(slides, classes=Classes(0, 1), labels_optional=True).y is None
    with pytest.raises(
        InputError, match=r"slides is a folder of slides, not a table: drop=\['f'\] would have no effect"
    ):
        read_bags(slides, drop=["f"])
    with pytest.raises(InputError, match=r'slides has no column "z". Give positions in a .csv'):
        read_bags(slides, position="z")
    with pytest.raises(InputError, match="slides is no folder of bags with splits: split='test' would have no effect"):
        read_bags(slides, split="test")


def test_a_store_of_patients(slides, tmp_path):
    with pytest.warns(DataWarning, match=NO_COORDS):
        manifest = import_bags(slides, tmp_path / "store", bag="case_id", positive="tumor_tissue")
    assert manifest.bags == 2
    table = open_store(tmp_path / "store").table()
    assert table.classes == ("normal_tissue", "tumor_tissue")
    assert table.y.tolist() == [1, 0]
    assert table.y_instances.tolist() == [0, 0, -1, -1, -1]


def test_pt_files_beside_h5_files(slides, tmp_path):
    torch = pytest.importorskip("torch")
    clam = tmp_path / "clam"
    (clam / "pt_files").mkdir(parents=True)
    (clam / "h5_files").mkdir()
    shutil.copy(slides / "s1.h5", clam / "h5_files")
    torch.save(torch.tensor([[9.0]]), clam / "pt_files" / "s1.pt")  # of two files that with coords is read
    torch.save(torch.tensor([[3.5]], dtype=torch.bfloat16), clam / "pt_files" / "s2.pt")
    torch.save({"features": torch.tensor([[4.0]]), "coords": torch.tensor([[7, 8]])}, clam / "s3.pt")
    said = r"^1 slides have several files, of which one is read. The first: h5_files/s1.h5, and not pt_files/s1.pt\.$"
    with pytest.warns(DataWarning, match=said):
        table = read_bags(clam)
    assert table.bags.X.tolist() == [[1.0], [2.0], [3.5], [4.0]]
    assert [slide.name for slide in table.slides] == ["s1", "s3"]
    assert table.slides[1].coords.tolist() == [[7, 8]]
    torch.save({"coords": torch.tensor([[7, 8]])}, clam / "s3.pt")
    with pytest.raises(InputError, match=r's3.pt holds a dict without "features"'):
        datasets.read_h5(clam, {"s2": 1, "s3": 0})  # of s1, which has two files, nobody asked

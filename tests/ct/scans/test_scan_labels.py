import gzip
import warnings

import pytest

from psimil.ct.scans.label_file import read_scan_labels, read_slice_labels
from psimil.ct.scans.scan_labels import ScanLabels, ScanNames
from psimil.foundations.errors import DataWarning, InputError, MissingFile

KINDS = ("epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural", "any")
CQ500 = "name,Category,R1:ICH,R1:IPH,R2:ICH,R2:IPH,R3:ICH,R3:IPH\n"


def written(path, text, name="labels.csv"):
    (path / name).write_text(text)
    return path / name


def rsna(images):
    return "ID,Label\n" + "".join(
        f"{image}_{kind},{int(positive and kind in ('any', 'subdural'))}\n"
        for image, positive in images
        for kind in KINDS
    )


@pytest.mark.parametrize(
    "header", ["scan,label", "scan_id,label", "id,label", "study,Label", "Name,LABEL", " scan , label "]
)
def test_plain_tables(tmp_path, header):
    labels = read_scan_labels(written(tmp_path, f"{header}\n1.2.3,1\n007,0\n\n 1.2.4 ,1.0\n007,0\n"))
    assert labels.kind == "scans" and labels.scan_labels == {"1.2.3": 1, "007": 0, "1.2.4": 1}
    assert labels.slice_labels == {}


def test_columns_can_stand_anywhere(tmp_path):
    text = "\ufeffage,label,scan\n70,1,a\n60,0,b\n"
    assert read_scan_labels(written(tmp_path, text)).scan_labels == {"a": 1, "b": 0}
    (tmp_path / "zipped").write_bytes(gzip.compress(text.encode()))
    assert read_scan_labels(str(tmp_path / "zipped")).scan_labels == {"a": 1, "b": 0}


def test_rsna_as_published(tmp_path):
    images = [("ID_12cadc6af", False), ("ID_38fd7baa0", True), ("ID_6c5d82413", False), ("ID_38fd7baa0", True)]
    labels = read_scan_labels(written(tmp_path, rsna(images), "stage_2_train.csv"))
    assert labels.kind == "rsna" and labels.scan_labels == {}
    assert labels.slice_labels == {"ID_12cadc6af": 0, "ID_38fd7baa0": 1, "ID_6c5d82413": 0}
    assert labels.scan_label(["ID_12cadc6af", "ID_6c5d82413"]) == 0
    assert labels.scan_label(["ID_12cadc6af", "ID_38fd7baa0\0"]) == 1
    assert labels.scan_label(["ID_38fd7baa0", "unknown"]) == 1
    assert labels.scan_label(["ID_12cadc6af", "unknown"]) is None and labels.scan_label([]) is None
    scans = {"p": ScanNames(("1",), ("ID_38fd7baa0",)), "q": ScanNames(("2",), ("ID_12cadc6af", "ID_6c5d82413"))}
    assert labels.match(scans) == {"p": 1, "q": 0}


def test_cq500_as_published(tmp_path):
    text = CQ500 + "CQ500-CT-0,A,1,0,1,0,0,0\nCQ500-CT-1,A,0,1,1,1,0,1\nCQ500-CT-10,B,1,1,1,1,1,1\n"
    labels = read_scan_labels(written(tmp_path, text, "reads.csv"))
    assert labels.kind == "cq500" and labels.scan_labels == {"CQ500-CT-0": 1, "CQ500-CT-1": 0, "CQ500-CT-10": 1}
    scans = {str(n): ScanNames(("1.2.3", f"CQ500CT{n} CQ500CT{n}")) for n in (0, 1, 10)}
    assert labels.match(scans) == {"0": 1, "1": 0, "10": 1}
    assert labels.named(["CQ500CT100 CQ500CT100"]) is None and labels.named(["cq500-ct-010"]) == 1


def test_scans_are_matched_by_any_of_their_names():
    labels = ScanLabels("scans", {"1.2.3": 1, "folder": 0, "0f1e": 1})
    scans = {"a": ScanNames(("1.2.3 ", "x")), "b": ScanNames(("9", "folder")), "c": ScanNames(("8", "y", "0f1e"))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert labels.match(scans) == {"a": 1, "b": 0, "c": 1}
    with pytest.warns(DataWarning, match="1 of 4 scans have no label and are left out"):
        assert labels.match({**scans, "d": ScanNames(("7",))}) == {"a": 1, "b": 0, "c": 1}
    with pytest.raises(InputError, match="gives one scan two labels"):
        labels.named(["1.2.3", "folder"])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (ScanLabels("scans", {"a": 1}), "study or series UIDs, folder names, or ids as psimil ct index shows"),
        (ScanLabels("rsna", {}, {"ID_a": 1}), "SOP instance UID of a slice"),
        (ScanLabels("cq500", {"CQ500-CT-1": 1}), "folders such as CQ500CT7"),
    ],
)
def test_no_match_says_what_is_matched(labels, words):
    with pytest.raises(InputError, match=f"no label matches any of the 2 scans; .*{words}"):
        labels.match({"p": ScanNames(("SECRET",), ("1.9",)), "q": ScanNames(())})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'needs the columns "scan" and "label"'),
        ("scan,truth\na,1\n", 'needs the columns "scan" and "label"'),
        ("file,label\na,1\n", 'needs the columns "scan" and "label"'),
        ("scan,label\n", "has no rows: 0 scans"),
        ("scan,label\na,1\nb,2\n", "the label in row 2 is 2; it must be 0 or 1"),
        ("scan,label\na,\n", "the label in row 1 is empty"),
        ("scan,label\na,SECRET\n", "the label in row 1 is not a number"),
        ("scan,label\na,1\n,0\n", "row 2 names no scan"),
        ("scan,label\nSECRET,1\nb,0\nSECRET,0\n", "row 3 gives a scan another label than a row above"),
        ("scan,label\na,1,SECRET\n", "row 1 has 3 cells, the header has 2"),
        ("ID,Label\nID_a_any,1\nID_a_any,0\n", "row 2 gives a scan another label"),
        ("ID,Label\nID_a_any,1\nSECRET,0\n", "the ID in row 2 does not end with a kind such as _any"),
        ("ID,Label\nID_a_epidural,1\n", "has no rows with labels"),
        ("name,R1:ICH,R2:ICH\nCQ500-CT-1,1,1\n", 'has no column "R3:ICH"'),
        (CQ500 + "SECRET,A,1,0,1,0,0,0\n", "the name in row 1 is not of the form CQ500-CT-7"),
        (CQ500 + "CQ500-CT-1,A,3,0,1,0,0,0\n", "the label in row 1 is 3"),
        (CQ500, "has no rows with labels"),
        (
            'scan,label\n"a,1\n',
            "cannot be read as CSV: quotation marks do not match up to line 2. Close or remove them.",
        ),
    ],
)
def test_what_is_wrong_is_said_without_names(tmp_path, text, words):
    with pytest.raises(InputError) as caught:
        read_scan_labels(written(tmp_path, text))
    message = str(caught.value)
    assert words in message and "SECRET" not in message and "\n" not in message


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(MissingFile, match="was not found"):
        read_scan_labels(tmp_path / "labels.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_scan_labels(tmp_path)
    latin = "scan,label\na,1\nMüller,0\n".encode("latin-1")
    for content in (latin, gzip.compress(latin)):
        (tmp_path / "bad.csv").write_bytes(content)
        with pytest.raises(InputError, match=r"bad.csv cannot be read as CSV: line 3 is not UTF-8\. Save the file as"):
            read_scan_labels(tmp_path / "bad.csv")
    for content in (b"scan,label\n\xff\xfe,1\n", gzip.compress(b"scan,label\n" + bytes(range(48, 58)) * 50)[:40]):
        (tmp_path / "bad.csv").write_bytes(content)
        with pytest.raises(InputError, match=r"bad.csv cannot be read"):
            read_scan_labels(tmp_path / "bad.csv")


def test_labels_without_a_scan_are_counted_and_named_by_their_rows(tmp_path):
    rows = "".join(f"SECRET-{n},1\n" for n in range(12))
    labels = read_scan_labels(written(tmp_path, f"scan,label\na,1\n\nSECRET,0\nunread,0\n{rows}"))
    here = {"1": ScanNames(("1.2.3", "a"))}
    with pytest.warns(
        DataWarning, match=r"^13 of 15 labels are of no scan in the folder, in rows 3, 5, 6, .*, 13, \.\.\. of"
    ):
        assert labels.match(here, [ScanNames(("9", "unread"))]) == {"1": 1}
    one = ScanLabels("scans", {"a": 1, "SECRET": 0})
    with pytest.warns(DataWarning, match=r"^1 of 2 labels are of no scan in the folder, in rows 2 of their file\.$"):
        one.match(here)
    slices = read_scan_labels(written(tmp_path, rsna([("ID_a", True), ("ID_b", False)])))
    with pytest.warns(DataWarning, match=r"^1 of 2 labels are of no scan in the folder, in rows 12 of"):
        assert slices.match({"1": ScanNames(("1",), ("ID_a",))}) == {"1": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.2,1\n1.2,0\n", "row 2 gives a scan another label"),
        (",1\n", "row 1 names no scan"),
        ("1.2,x\n", "the label in row 1 is not a number"),
        ("", "has no rows with labels"),
    ],
)
def test_labels_of_slices_are_checked_as_those_of_scans(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read_slice_labels(written(tmp_path, f"sop_instance_uid,label\n{text}"))

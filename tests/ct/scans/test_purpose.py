"""What a model is for: codes from text, through JSON and label files; body parts."""

import pytest

from psimil.ct.scans.label_file import read_scan_labels
from psimil.ct.scans.purpose import HEMORRHAGE, SCHEME, UNNAMED, Code, Purpose, region_of
from psimil.foundations.errors import InputError


@pytest.mark.parametrize("text", ["", " ", "a" * 65, "SCT:1", "SCT:12345678901234567:Long", "a:b:c:d", "a; "])
def test_what_names_nothing_is_refused(text):
    with pytest.raises(InputError, match="a finding is named by words"):
        Purpose.read(text)


def test_words_get_one_private_code_whatever_their_case():
    one, other = Code.read("Free  air"), Code.read("free air")
    assert one.scheme == SCHEME and one.value == other.value != Code.read("Free fluid").value
    assert one.meaning == "Free air" and len(one.value) <= 16


def test_it_goes_through_json_and_nothing_else_does():
    seen = HEMORRHAGE.seen_on(["HEAD", "", "NECK", "HEAD"])
    assert Purpose.from_json(seen.json) == seen and seen.regions == ("HEAD", "NECK")
    for wrong in (
        None,
        [],
        {},
        {**seen.json, "more": 1},
        {**seen.json, "regions": ["Smith"]},
        {**seen.json, "finding": ["a"]},
    ):
        with pytest.raises(InputError, match="purpose needs"):
            Purpose.from_json(wrong)


def test_only_known_body_parts_count():
    assert [region_of(part) for part in (" skull ", "Chest", "SMITH^JOHN", "")] == ["HEAD", "CHEST", "", ""]


@pytest.mark.parametrize(
    ("head", "purpose"),
    [
        ("label", UNNAMED),
        ("Label: SCT:1386000:Intracranial hemorrhage; LN:24725-4:CT Head", HEMORRHAGE),
        ("label:Free air", Purpose(Code.read("Free air"))),
    ],
)
def test_the_label_file_names_the_finding(head, purpose, tmp_path):
    (tmp_path / "scans.csv").write_text(f"scan,{head}\na,1\nb,0\n")
    labels = read_scan_labels(tmp_path / "scans.csv")
    assert labels.purpose == purpose and labels.scan_labels == {"a": 1, "b": 0}
    assert read_scan_labels(tmp_path / "scans.csv").kind == "scans"


def test_published_files_are_about_hemorrhage(tmp_path):
    (tmp_path / "reads.csv").write_text("name,R1:ICH,R2:ICH,R3:ICH\nCQ500-CT-1,1,1,0\n")
    assert read_scan_labels(tmp_path / "reads.csv").purpose == HEMORRHAGE

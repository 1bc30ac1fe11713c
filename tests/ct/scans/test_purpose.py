"""What a model is for: codes from text, through JSON and label files; body parts."""

import pytest

from psimil.ct.scans.label_file import read_scan_labels
from psimil.ct.scans.purpose import HEMORRHAGE, SCHEME, UNNAMED, Code, Purpose, region_of
from psimil.foundations.errors import InputError


@pytest.mark.parametrize("text", ["", " ", "a" * 65, "SCT:1", "SCT:12345678901234567:Long", "a:b:c:d", "a; "])
def test_what_names_nothing_is_refused(text):
    with pytest.raises(InputError, match="a finding is named by words"):
        Purpose.read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SCT:36118008:", "the meaning is empty"),
        (":36118008:Pneumothorax", "the scheme is empty"),
        ("SCT: :Pneumothorax", "the value is empty"),
        ("SCT:1:2:3", "4 parts between colons"),
        ("SCT:36118008", "2 parts between colons"),
        ("SCT:12345678901234567:Long", "the value has 17 letters, more than 16"),
        (f"SCT:36118008:{'a' * 65}", "the meaning has 65 letters, more than 64"),
        ("SCT:36118008:Free\\air", "the meaning has letters that a code cannot have"),
        ("SCT:36118008:Free\u200bair", "the meaning has letters that a code cannot have"),
        ("99 MY:1:Free air", "the scheme has letters that a code cannot have"),
        ("SCT:36118009:Pneumothorax", "the value of scheme SCT has a digit too many, too few or mistyped"),
        ("SCT:36181008:Pneumothorax", "the value of scheme SCT has a digit too many, too few or mistyped"),
        ("a; LN:24627-3:CT Chest", "the value of scheme LN has a digit too many, too few or mistyped"),
        ("SCT:pneumothorax:Pneumothorax", "the value of scheme SCT is not of its form, as 36118008"),
        ("LN:24627:CT Chest", "the value of scheme LN is not of its form, as 24627-2"),
        ("LOINC:24627-2:CT Chest", "the scheme is called LN in DICOM"),
        ("sct:36118009:Pneumothorax", "the scheme is called SCT in DICOM"),
        ("Pneumothorax; ", "the meaning is empty"),
        ("Free\x07air", "the meaning has letters that a code cannot have"),
        ("\ud800", "the meaning has letters that a code cannot have"),
    ],
)
def test_odd_codes_are_refused_with_their_part(text, words):
    with pytest.raises(InputError, match=f"^{words}; a finding is named by words"):
        Purpose.read(text)


@pytest.mark.parametrize("value", ["36118008", "1386000", "52101004", "2667000", "386136009", "371886008"])
def test_one_wrong_digit_of_a_snomed_code_is_found_and_two_that_changed_places(value):
    Code(value, "SCT", "right").check()
    wrong = {value[:place] + digit + value[place + 1 :] for place in range(len(value)) for digit in "123456789"}
    wrong |= {value[:n] + value[n + 1] + value[n] + value[n + 2 :] for n in range(len(value) - 1)}
    for other in sorted(wrong - {value}):
        with pytest.raises(InputError, match=r"value of scheme SCT"):
            Code(other, "SCT", "wrong").check()


def test_codes_made_in_python_are_checked_as_those_that_are_read():
    with pytest.raises(InputError, match=r"^the value is empty"):
        Purpose(Code("", "SCT", "Pneumothorax"))
    with pytest.raises(InputError, match=r"^the meaning has letters"):
        Purpose(Code("1", "99MY", "a\nb"))
    with pytest.raises(InputError, match="must be Code, got str"):
        Purpose("Pneumothorax")
    assert Purpose(Code("J93.9", "I10", "Pneumothorax, unspecified")).words == "Pneumothorax, unspecified (I10 J93.9)"


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("label:", "the meaning is empty"),
        ("label: ; LN:24627-2:CT Chest", "the meaning is empty"),
        ("label: Free air;", "the meaning is empty"),
        ("label,label: Free air", "has 2 columns of labels. Keep one"),
    ],
)
def test_a_head_that_names_no_finding_is_refused(head, words, tmp_path):
    (tmp_path / "scans.csv").write_text(f"scan,{head}\na,1,1\n")
    with pytest.raises(InputError, match=words):
        read_scan_labels(tmp_path / "scans.csv")


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
        {**seen.json, "finding": ["", "SCT", "a"]},
        {**seen.json, "procedure": [1, 2, 3]},
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

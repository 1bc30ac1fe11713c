import csv
import filecmp

import numpy as np
import pytest
from scipy.ndimage import binary_erosion, binary_fill_holes, gaussian_filter
from sklearn.metrics import roc_auc_score

from psimil.ct.phantom.head import RUN, head
from psimil.ct.phantom.lesions import KINDS, Place, draw_blood
from psimil.ct.phantom.studies import write_phantoms
from psimil.foundations.errors import InputError

pydicom = pytest.importorskip("pydicom")


def scan(seed, size=64, **options):
    return head(np.random.default_rng(seed), size=size, **{"positive": True, **options})


@pytest.fixture(scope="module")
def many():
    """40 scans, half of them positive."""
    return [scan([1, seed], positive=bool(seed % 2)) for seed in range(40)]


def brain(hu):
    bone = hu > 300
    return binary_erosion(binary_fill_holes(bone) & ~bone, iterations=1)


def test_shapes_ranges_and_variety(many):
    for phantom in many:
        count = len(phantom.truth)
        assert phantom.hu.shape == (count, 64, 64) and phantom.hu.dtype == np.int16 and 16 <= count <= 32
        assert phantom.hu.min() >= -1024 and phantom.hu.max() <= 3071
        steps = np.diff(phantom.positions)
        assert np.allclose(steps, steps[0], atol=1e-6) and 2.5 <= phantom.thickness <= steps.max() + 0.011
        assert phantom.truth.dtype == np.int8 and 3.0 < phantom.spacing[0] == phantom.spacing[1] < 4.0
    assert {kind for phantom in many for kind in phantom.kinds} == set(KINDS)
    assert len({phantom.thickness for phantom in many}) > 15


def test_tissues_have_the_values_of_ct(many):
    for phantom in many[:10]:
        middle = phantom.hu[len(phantom.hu) // 2].astype(float)
        assert 20 < np.median(middle[brain(middle)]) < 45
        assert np.median(middle[:3]) < -950 and 600 < np.percentile(middle, 97) < 2000


def test_blood_is_in_one_run_of_slices_of_positive_scans(many):
    for seed, phantom in enumerate(many):
        seen = np.flatnonzero(phantom.truth)
        if seed % 2:
            assert RUN[0] <= len(seen) <= RUN[1] and np.ptp(seen) == len(seen) - 1 and phantom.kinds
        else:
            assert len(seen) == 0 and phantom.kinds == ()


def runs_of(truth):
    """Lengths of the runs of positive slices, counted one by one."""
    found, length = [], 0
    for label in [*truth, 0]:
        if label:
            length += 1
        elif length:
            found, length = [*found, length], 0
    return found


def test_several_lesions_are_in_runs_of_slices_some_of_them_apart():
    """At most so many runs as lesions, of two slices at least; and one lesion is the scan that it always was."""
    numbers = []
    for seed in range(8):
        phantom = scan([9, seed], lesions=2)
        runs = runs_of(phantom.truth)
        assert 1 <= len(runs) <= 2 and min(runs) >= RUN[0] and sum(runs) <= RUN[1]
        assert len(phantom.kinds) >= len(runs)
        numbers.append(len(runs))
    assert 2 <= numbers.count(2) <= 6, numbers
    assert runs_of(scan([2, 0], size=48, positive=False, lesions=2).truth) == []
    np.testing.assert_array_equal(scan(4, lesions=1).hu, scan(4).hu)


def test_more_lesions_than_there_is_room_for_are_refused(tmp_path):
    for lesions in (0, 4, 1.5):
        for refused in (lambda n: scan(0, lesions=n), lambda n: write_phantoms(tmp_path / "no", 2, lesions=n)):
            with pytest.raises(InputError, match=f"lesions must be a whole number from 1 to 3, got {lesions}"):
                refused(lesions)
    assert not (tmp_path / "no").exists()


def test_the_truth_file_lists_the_runs_of_every_study(tmp_path):
    files = write_phantoms(tmp_path / "several", 4, seed=1, size=32, share=1.0, lesions=2)
    one = write_phantoms(tmp_path / "one", 1, seed=1, size=32, share=1.0)
    studies = {}
    for row in rows(files.truth):
        studies.setdefault(row["scan"], []).append((float(row["position"]), int(row["label"])))
    found = [runs_of([label for _, label in sorted(slices)]) for slices in studies.values()]
    assert len(found) == 4 and {len(runs) for runs in found} == {1, 2}
    assert not {row["scan"] for row in rows(one.scans)} & set(studies)  # other studies have other UIDs


@pytest.mark.parametrize("kind", KINDS)
def test_blood_can_be_seen_where_the_truth_says_so(kind, monkeypatch):
    """The same head with and without its blood: what was added stands out over brain in a region that is large."""
    from psimil.ct.phantom import head as module

    seen = []
    drawn = module._drawn

    def spy(anatomy, grid, positions, thickness, bleeds):
        clean, truth, blood = drawn(anatomy, grid, positions, thickness, bleeds)
        seen[:] = [clean - drawn(anatomy, grid, positions, thickness, ())[0], clean]
        return clean, truth, blood

    monkeypatch.setattr(module, "_drawn", spy)
    phantom = scan(3, size=96, kind=kind, n_slices=16)
    assert phantom.kinds == (kind,)
    added, clean = seen
    for number, positive in enumerate(phantom.truth):
        if positive:
            area = np.count_nonzero((clean[number] >= 37 + 15) & (added[number] > 5)) * phantom.spacing[0] ** 2
            assert area >= 30
            marked = phantom.blood[number]
            assert marked.sum() * phantom.spacing[0] ** 2 >= 60 and (clean[number][marked] > 37 + 15).all()
            assert (added[number][marked] > 5).all()
        else:
            assert not added[number].any() and not phantom.blood[number].any()


def test_shapes_of_blood():
    """In a plain ball: lens and crescent lie on the skull, a lump within, the rest in the fluid."""
    skull = (64.0, 82.0, 85.0)
    x, y, z = np.meshgrid(*(np.arange(-90, 91, 3, dtype=np.float32),) * 2, np.float32([10, 20, 30]))
    depth = 70 * (1 - np.sqrt((x / 64) ** 2 + (y / 82) ** 2 + (z / 85) ** 2))
    spaces, ventricles = (x % 2 == 0).astype(np.float32), (np.abs(x) < 20).astype(np.float32)
    at = Place(x, y, z, depth, spaces, ventricles)
    for seed in range(12):
        half = {kind: draw_blood(np.random.default_rng(seed), kind, skull, 25.0).share(at) > 0.5 for kind in KINDS}
        assert all(share.any() for share in half.values())
        for kind in ("epidural", "subdural"):
            assert 0 <= depth[half[kind]].min() < 4 and depth[half[kind]].max() < 25
            assert np.ptp(np.sign(x[half[kind]])) == 0  # on one side
        assert depth[half["subdural"]].max() < 15.5 and np.ptp(y[half["subdural"]]) > 45
        assert depth[half["intraparenchymal"]].min() > 2
        assert spaces[half["subarachnoid"]].all() and ventricles[half["intraventricular"]].all()


def test_a_threshold_on_a_slice_fails(many):
    """Brightness does not tell blood from bone, sinus, falx, calcification and a scanner that is off."""
    truth, scores = [], []
    for phantom in many:
        for hu, positive in zip(phantom.hu.astype(float), phantom.truth, strict=True):
            inside, smooth = brain(hu), gaussian_filter(hu, 0.8)
            values, raw = smooth[inside], hu[inside]
            enough = len(values) > 10
            truth.append(positive)
            scores.append([
                np.mean((raw > 50) & (raw < 90)) if enough else 0.0,
                np.count_nonzero((values > 52) & (values < 90)),
                values.max() if enough else 0.0,
                np.percentile(values, 98) if enough else 0.0,
                values.mean() if enough else 0.0,
            ])  # fmt: skip
    areas = [roc_auc_score(truth, column) for column in np.transpose(scores)]
    assert max(areas) < 0.8, areas


def test_the_same_chance_gives_the_same_scan():
    one, two, other = scan(4), scan(4), scan(5)
    assert np.array_equal(one.hu, two.hu) and np.array_equal(one.truth, two.truth)
    assert one.hu.shape != other.hu.shape or not np.array_equal(one.hu, other.hu)


def test_wrong_arguments_are_refused():
    with pytest.raises(InputError, match="kind of blood must be one of epidural, subdural"):
        scan(0, kind="bruise")
    for options in ({"size": 16}, {"n_slices": 4}):
        with pytest.raises(InputError, match="size >= 32 and n_slices >= 8"):
            scan(0, **options)
    assert len(scan(0, n_slices=12).truth) == 12


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    notes = []
    return write_phantoms(tmp_path_factory.mktemp("phantoms") / "out", 6, size=32, progress=notes.append), notes


def rows(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_files_are_valid_ct_and_agree_with_the_tables(written):
    files, notes = written
    assert notes == sorted(path.name for path in files.studies.iterdir()) == [f"{n:03}" for n in range(1, 7)]
    truth = {row["sop_instance_uid"]: row for row in rows(files.truth)}
    labels = {row["scan"]: int(row["label"]) for row in rows(files.scans)}
    assert sum(labels.values()) == 3 and len(labels) == 6
    uids, series, scouts, reversed_ = set(), set(), 0, 0
    for folder in files.studies.iterdir():
        datasets = [pydicom.dcmread(path) for path in sorted(folder.iterdir())]
        scouts += sum("LOCALIZER" in d.ImageType for d in datasets)
        axial = [d for d in datasets if "AXIAL" in d.ImageType]
        uids |= {d.SOPInstanceUID for d in datasets}
        series |= {d.SeriesInstanceUID for d in datasets}
        (study,) = {d.StudyInstanceUID for d in datasets}
        heights = [float(d.ImagePositionPatient[2]) for d in axial]
        assert heights != sorted(heights) and heights != sorted(heights)[::-1]  # file names are not in order
        axial.sort(key=lambda d: d.ImagePositionPatient[2])
        numbers = [d.InstanceNumber for d in axial]
        assert sorted(numbers) == list(range(1, len(axial) + 1))
        reversed_ += numbers[0] > numbers[-1]
        found = [int(truth[d.SOPInstanceUID]["label"]) for d in axial]
        assert max(found) == labels[study]
        for d in axial:
            assert truth[d.SOPInstanceUID]["scan"] == study
            assert float(truth[d.SOPInstanceUID]["position"]) == float(d.ImagePositionPatient[2])
            assert d.SOPClassUID == d.file_meta.MediaStorageSOPClassUID == "1.2.840.10008.5.1.4.1.1.2"
            assert (d.RescaleIntercept, d.RescaleSlope, d.BurnedInAnnotation) == (-1024, 1, "NO")
            hu = d.pixel_array.astype(int) + int(d.RescaleIntercept)
            assert hu.shape == (32, 32) and hu.min() >= -1024 and hu[0, 0] < -900 and d.BitsStored in (12, 16)
    assert len(uids) == len(truth) + scouts and len(series) == 6 + scouts
    assert 0 < scouts < 6 and 0 < reversed_ < 6


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    one, two = (write_phantoms(tmp_path / name, 2, seed=3, size=32) for name in "ab")
    other = write_phantoms(tmp_path / "c", 2, seed=4, size=32)
    names = [path.relative_to(one.studies) for path in sorted(one.studies.rglob("*.dcm"))]
    _, mismatch, errors = filecmp.cmpfiles(one.studies, two.studies, names, shallow=False)
    assert names and not mismatch and not errors
    assert one.truth.read_bytes() == two.truth.read_bytes() and one.scans.read_bytes() == two.scans.read_bytes()
    assert not {row["scan"] for row in rows(one.scans)} & {row["scan"] for row in rows(other.scans)}


def test_studies_are_not_mixed_and_numbers_are_checked(tmp_path, written):
    with pytest.raises(InputError, match="has studies already; remove it or name another folder"):
        write_phantoms(written[0].studies.parent, 1, size=32)
    for options, words in (
        ({"n_scans": 0}, "n_scans must be a whole number >= 1, got 0"),
        ({"share": 1.5}, "phantoms need a share in"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"size": 8}, "a size in .32, 1024., got 0.5 and 8"),
    ):
        with pytest.raises(InputError, match=words):
            write_phantoms(tmp_path, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 2)])
def test_the_share_of_positive_scans(tmp_path, share, expected):
    files = write_phantoms(tmp_path, 2, size=32, share=share)
    assert sum(int(row["label"]) for row in rows(files.scans)) == expected

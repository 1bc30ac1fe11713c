"""``psimil report``: one file that stands alone, says what it must, and runs nothing that is in the data."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jinja2")

from commands import call, fails
from psimil.figures import plot_bag, plot_strip
from psimil.foundations.errors import InputError
from psimil.report import Choices, page, render_report
from psimil.report.calls import Words, reason_words
from psimil.report.numerals import decimal, probability
from psimil.results.metrics import bag_metrics, instance_metrics
from psimil.results.referral_curve import referral_cost
from psimil.results.result_file import NAME
from psimil.results.result_set import ResultSet
from report_pages import Page, feature_results, predicted, scan_results

ONE, NONE = Choices(probable=1, uncertain=1), Choices(probable=0, uncertain=0)
TRUTH = np.array([1, 0, 1, -1, 0, 1])


@pytest.fixture(scope="module")
def features():
    return Page(render_report(feature_results(truth=TRUTH, notes=("odd",) * 6), ONE, source="sha256 0123"))


@pytest.fixture(scope="module")
def scans():
    return Page(render_report(scan_results(), ONE))


@pytest.fixture(params=["features", "scans"])
def either(request):
    return request.getfixturevalue(request.param)


def test_every_element_is_closed_and_ids_are_unique(either):
    assert either.open == []
    ids = [found["id"] for _, found in either.tags if "id" in found]
    assert len(ids) == len(set(ids))
    links = {found["href"] for tag, found in either.tags if tag == "a"}
    assert links and links <= {f"#{name}" for name in ids}


def test_it_stands_alone_and_runs_nothing(either):
    tags = [tag for tag, _ in either.tags]
    assert not set(tags) & {"script", "link", "iframe", "object", "embed", "form", "base", "input", "video", "audio"}
    for tag, found in either.tags:
        assert not any(name.startswith("on") or name == "style" for name in found), (tag, found)
        assert found.get("src", "data:image/").startswith("data:image/")
    policies = [found["content"] for _, found in either.tags if found.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_it_says_that_it_is_for_research(either):
    assert either.text.count("Research use only, not a medical device.") == 2


def test_tables_have_captions_and_heads_have_scopes(either):
    names = [tag for tag, _ in either.tags]
    assert names.count("table") == names.count("caption") > 3
    assert all(found.get("scope") in ("col", "row") for tag, found in either.tags if tag == "th")
    assert all(found.get("alt") for tag, found in either.tags if tag == "img")
    assert either.tags[0] == ("html", {"lang": "en"})


def test_it_prints_and_follows_the_colours_of_the_system(either):
    assert "@media print" in either.text and "prefers-color-scheme: dark" in either.text


def test_all_bags_are_listed_with_all_digits(sketches):
    results = feature_results(truth=TRUTH)
    found = Page(render_report(results, ONE))
    p = results.prediction
    assert list(found.bags) == results.by_probability().tolist()
    for b, row in found.bags.items():
        expected = (p.prob[b], p.std[b], p.lower[b], p.upper[b], p.log_odds[b], p.label[b], p.refer[b], TRUTH[b], 4)
        names = ("prob", "std", "lower", "upper", "log_odds", "called", "refer", "truth", "size")
        assert tuple(row[name] for name in names) == expected
    assert found.facts["positives_called"] == p.label.sum() and found.facts["to_refer"] == p.refer.sum()
    assert (found.facts["bags"], found.facts["instances"]) == (6, 24)
    assert (found.facts["threshold"], found.facts["instance_threshold"]) == (p.threshold, p.instance_threshold)


def test_scores_are_those_of_the_known_bags_and_instances(sketches):
    results = scan_results(truth=np.array([1, 0, -1]))
    found, p = Page(render_report(results, ONE)).scores, results.prediction
    bags = bag_metrics([1, 0], p.prob[:2], p.threshold, p.log_odds[:2])
    slices = instance_metrics(results.instance_truth, p.instance_prob, p.instance_threshold, p.instance_log_odds)
    assert {name: row["bags"] for name, row in found.items()} == bags
    assert {name: row["instances"] for name, row in found.items()} == slices


def test_what_is_found_inside_scans_is_in_mm_beside_the_middle(sketches):
    results = scan_results()
    found, inside = Page(render_report(results, ONE)), results.localisation()
    assert {key: row["model"] for key, row in found.inside.items()} == inside.model
    assert {key: row["middle"] for key, row in found.inside.items()} == inside.middle
    assert (inside.unit, inside.n_both_kinds) == ("mm", 3) and inside.middle["localisation_error"] > 1
    assert "slice AUC within scans" in found.text and "localisation error, mm" in found.text
    assert Page(render_report(feature_results(truth=TRUTH), ONE)).inside == {}


def test_the_referral_curve_has_the_cost_of_refer(sketches):
    results = feature_results(truth=TRUTH)
    p, known = results.prediction, TRUTH >= 0
    cost = referral_cost(TRUTH[known], p.prob[known], p.refer[known], p.threshold)
    assert 0 < cost.share < 1 and f"The ring is what this model refers here: {cost.words}." in Page(
        render_report(results, ONE)
    ).text.replace(" refer , as", " refer, as")


def test_what_is_not_known_is_not_shown(sketches):
    found = Page(render_report(feature_results(), ONE))
    assert not found.scores and "Scores" not in found.text and "truth" not in next(iter(found.bags.values()))
    assert "Reliability" not in found.text
    one_class = Page(render_report(feature_results(truth=np.ones(6)), ONE))
    assert np.isnan(one_class.scores["auc"]["bags"]) and "– " in one_class.text


def test_what_is_unlike_the_training_data_is_told_plainly(sketches):
    results = scan_results()
    novelty = np.full(24, 0.25)
    novelty[results.instances_of(1)][3] = 0.875
    found = replace(results.prediction, instance_novelty=novelty, margin=0.0)
    page = Page(render_report(replace(results, prediction=found), Choices(probable=3)))
    assert page.facts["novel"] == 1 and "1 to refer to a reader (1 unlike the training data)." in page.text
    assert {bag: row["novelty"] for bag, row in page.bags.items()} == {0: 0.25, 1: 0.875, 2: 0.25}
    assert "unlike the training data 0.875" in page.text and "0.875, unlike the training data" in page.text
    for bag in range(3):
        assert reason_words(found, bag, Words.of("ct")) in page.text
    alts = [tag["alt"] for _, tag in page.tags if tag.get("alt", "").endswith(", unlike the training data")]
    assert len(alts) == 1 and alts[0].startswith("slice 4,")
    assert "lie within a margin around the threshold" in page.text
    without = Page(render_report(results, ONE))
    assert "unlike the training" not in without.text and "crosses the threshold" in without.text


def test_the_chosen_bags_are_shown_once_each(sketches):
    results = feature_results(n_bags=8)
    found = Page(render_report(results, Choices(probable=2, uncertain=3)))
    shown = [int(attributes["data-bag"]) for tag, attributes in found.tags if tag == "article"]
    most, unsure = results.by_probability()[:2].tolist(), results.by_uncertainty()[:3].tolist()
    assert shown == most + [bag for bag in unsure if bag not in most]
    assert {bag for bag, _ in found.instances} == set(shown)
    none = Page(render_report(results, Choices(probable=0, uncertain=0)))
    assert not [tag for tag, _ in none.tags if tag == "article"] and len(none.bags) == 8
    with pytest.raises(InputError, match="negative"):
        Choices(probable=-1)


def test_unlike_calls_of_a_scan_and_its_slices_are_explained(sketches):
    results = scan_results()
    unlike = replace(results, prediction=replace(results.prediction, threshold=1 - 1e-12, instance_threshold=0.1))
    page = Page(render_report(unlike, ONE))
    assert "Scans are called positive from probability >0.999 on, slices from 0.100 on" in page.text
    assert "slices reach the slice threshold 0.100, but the scan stays below the scan threshold >0.999" in page.text
    assert "above the slice threshold" in page.text and "no contradiction" in page.text
    first = int(unlike.by_probability()[0])
    called = [row["called"] for (bag, _), row in page.instances.items() if bag == first]
    assert called == unlike.prediction.split(unlike.prediction.instance_label)[first].tolist() and 1 in called
    alike = replace(results, prediction=replace(results.prediction, threshold=1e-9, instance_threshold=1e-9))
    assert "no contradiction" not in Page(render_report(alike, ONE)).text


def test_pictures_of_scans_say_which_side_of_the_patient_is_where(monkeypatch, sketches):
    strips = []
    monkeypatch.setattr(
        "psimil.report.pictures.plot_strip", lambda *a, **k: strips.append(k["edges"]) or plot_strip(*a, **k)
    )
    flipped = np.array([[-1.0, 0, 0, 0, 1, 0]] * 2 + [[0.0] * 6])
    page = Page(render_report(scan_results(orientation=flipped), Choices(probable=3, uncertain=0)))
    said = [text for text in page.texts if text.startswith("Every picture: ")]
    words = "left edge L, right edge R, top A, bottom P"
    assert sorted(said) == [*[f"Every picture: {words}."] * 2, "Every picture: orientation unknown."]
    assert sorted(strips) == [*[words] * 2, "orientation unknown"]
    assert "Every picture" not in "".join(Page(render_report(feature_results(), ONE)).texts)


def test_scans_have_thumbnails_and_positions(scans):
    results = scan_results()
    shown = len({bag for bag, _ in scans.instances})
    thumbnails = [found for tag, found in scans.tags if tag == "img" and found["src"].startswith("data:image/png")]
    assert len(thumbnails) == 8 * shown
    for (bag, index), row in scans.instances.items():
        n = 8 * bag + index
        assert row["position"] == results.positions[n] and row["truth"] == results.instance_truth[n]
        assert row["prob"] == results.prediction.instance_prob[n]
    assert "slice 1, called" in " ".join(found.get("alt", "") for _, found in scans.tags)


def test_telling_features_have_names_values_and_effects(features):
    assert "height = " in features.text and "(−0.250)" in features.text.replace("( ", "(").replace(" )", ")")
    values = [found["data-value"] for _, found in features.tags if found.get("data-field") == "effect"]
    assert set(values) == {"-0.25"}


def test_what_instances_owe_to_their_bags_is_told_where_it_is_known(features, sketches):
    owed = (np.linspace(-1.0, 1.0, 24), np.full(24, 0.125))
    found = Page(render_report(feature_results(truth=TRUTH, owed=owed), ONE))
    assert "owed to its bag" in found.text and "(+0.125)" not in found.text and "+0.125" in found.text
    for (bag, index), row in found.instances.items():
        assert (row["own_effect"], row["bag_effect"]) == (owed[0][4 * bag + index], 0.125)
    assert "owed to its bag" not in features.text


def test_long_bags_are_cut_to_the_most_probable(monkeypatch, sketches):
    monkeypatch.setattr("psimil.report.cases.FILM", 3)
    monkeypatch.setattr("psimil.report.cases.TABLE", 5)
    results = scan_results()
    found = Page(render_report(results, Choices(probable=1, uncertain=0)))
    bag = int(results.by_probability()[0])
    prob = results.prediction.instance_log_odds[results.instances_of(bag)]
    assert [index for _, index in found.instances] == sorted(np.argsort(-prob, kind="stable")[:5].tolist())
    assert "The 3 most probable of 8 slices" in found.text and "the 5 most probable of 8" in found.text


def test_long_scans_are_drawn_as_bars(monkeypatch, sketches):
    drawn = []
    monkeypatch.setattr("psimil.report.pictures.STRIP", 7)
    monkeypatch.setattr("psimil.report.pictures.plot_bag", lambda *a, **k: drawn.append(1) or plot_bag(*a, **k))
    render_report(scan_results(), Choices(probable=1, uncertain=0))
    assert drawn == [1]


def test_the_same_results_give_the_same_text(scans):
    assert render_report(scan_results(), ONE) == scans.source


def test_ids_are_shown_only_when_asked_for(sketches):
    ids = [f"Doe, Jane {n}" for n in range(6)]
    results = feature_results(ids=ids)
    hidden, shown = render_report(results, NONE), render_report(results, replace(NONE, show_ids=True))
    assert "Doe" not in hidden and "bag 6" in hidden
    assert all(name in shown for name in ids)
    assert f"{2:016x}" in render_report(scan_results(), NONE)  # keyed hashes
    scans = scan_results()
    plain = replace(scans, prediction=replace(scans.prediction, ids=np.array(["1.2.3", "1.2.4", "1.2.5"])))
    assert "1.2.4" not in render_report(plain, NONE) and "scan 3" in render_report(plain, NONE)
    assert "1.2.4" in render_report(plain, replace(NONE, show_ids=True))


PAYLOADS = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><svg onload=alert(1)>', "'><b>", "</title><b>",
    "</style><script>alert(1)</script>", "</table><h1>", "<!--", "-->", "<![CDATA[", "]]>", "{{ 7 * 7 }}", "{% raw %}",
    "${7*7}", "javascript:alert(1)", "&lt;b&gt;", "&#60;b&#62;", "<a href=//evil.example>", "</bdi></td></tr>",
    "<plaintext>", "<xmp>", "</script>", "<base href=//evil.example>", "<meta http-equiv=refresh content=0>",
    "<iframe srcdoc=x>", "<style>*{}</style>", '" onmouseover="x', "' style='x", "`x`", "\x00<b>", "\u202ecod",
    "\ufeff<b>",
]  # fmt: skip


def test_markup_in_the_data_stays_text(monkeypatch, sketches):
    def rendered(payload):
        texts = (payload,) * 6
        ids = [f"{payload}{n}" for n in range(6)]
        results = feature_results(
            ids=np.array(ids, dtype=object),
            names=(payload, payload),
            notes=texts,
            truth=TRUTH,
            model={payload: payload},
        )
        choices = Choices(0, 1, show_ids=True, title=payload)
        return Page(render_report(results, choices, source=payload))

    harmless = [(tag, sorted(found)) for tag, found in rendered("harmless").tags]  # the only one whose figures are made
    for name in ("cases.profile_uri", "summary.reliability_uri", "summary.referral_uri"):
        monkeypatch.setattr(f"psimil.report.{name}", lambda *shown: "data:image/svg+xml;base64,")
    assert len(PAYLOADS) >= 30
    for payload in PAYLOADS:
        found = rendered(payload)
        assert [(tag, sorted(names)) for tag, names in found.tags] == harmless, payload
        assert found.open == []
    assert "49" not in rendered("{{ 7 * 7 }}").text.split("Summary")[0]


def test_numbers_never_round_to_certainty():
    assert probability(1.0).text == "1.000" and probability(0.0).text == "0.000"
    assert probability(1 - 1e-9).text == ">0.999" and probability(1e-9).text == "<0.001"
    assert float(decimal(0.1 + 0.2).value) == 0.1 + 0.2
    for value in np.random.default_rng(0).uniform(0, 1, 200):
        assert float(probability(value).value) == value


@pytest.fixture
def without_jinja(monkeypatch):
    page._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    yield
    page._template.cache_clear()


def test_without_jinja_the_message_says_what_to_install(without_jinja, sketches):
    with pytest.raises(InputError, match=r"pip install .*\[viewer\]"):
        render_report(feature_results(), ONE)


def written(folder, results):
    folder.mkdir(exist_ok=True)
    results.write(folder / NAME)
    return folder


def test_the_command_writes_one_file(tmp_path):
    run = written(tmp_path / "run", feature_results(truth=TRUTH))
    done = call("report", run, "--probable", 1, "--uncertain", 0, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["report"] == str(run / "report.html") and facts["bytes"] == (run / "report.html").stat().st_size
    assert "not a medical device" in facts["note"]
    found = Page((run / "report.html").read_text(encoding="utf-8"))
    assert len(found.bags) == 6 and len({bag for bag, _ in found.instances}) == 1
    assert call("report", run, "--title", "MUSK1 & friends", "-o", tmp_path / "other.html").exit_code == 0
    assert "<title>MUSK1 &amp; friends</title>" in (tmp_path / "other.html").read_text(encoding="utf-8")


def test_the_command_replaces_nothing_unasked(tmp_path):
    run = written(tmp_path / "run", feature_results())
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    few = ("--probable", 0, "--uncertain", 0)
    fails(call("report", run, "-o", mine, *few), 74, "mine.html", "--overwrite")
    assert mine.read_text() == "mine"
    assert call("report", run, "-o", mine, "--overwrite", *few).exit_code == 0
    assert mine.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert call("report", run, *few).exit_code == 0 and call("report", run, *few).exit_code == 0
    for own in ("results.safetensors", "bags.csv"):  # what it reads, or any file that is no report
        (run / own).touch()
        before = (run / own).read_bytes()
        fails(call("report", run, "-o", run / own, "--overwrite", *few), 74, own, ".html")
        assert (run / own).read_bytes() == before


def test_the_command_refuses_what_is_no_result(tmp_path):
    fails(call("report", tmp_path), 66, "psimil predict")
    (tmp_path / NAME).write_bytes(b"nothing")
    fails(call("report", tmp_path), 65)
    fails(call("report", tmp_path, "--probable", -1), 2)
    assert not (tmp_path / "report.html").exists()


def test_names_in_any_encoding_are_written(tmp_path):
    run = written(tmp_path / "run", ResultSet.of(predicted(ids=[f"\udcff{n}" for n in range(6)])))
    done = call("report", run, "--show-ids", "--probable", 1, "--uncertain", 0)
    assert done.exit_code == 0, done.output
    assert "\\udcff3" in (run / "report.html").read_text(encoding="utf-8")

"""The viewer's JSON and pictures are those of the prediction, to the last digit."""

import json
from dataclasses import replace

import numpy as np
import pytest

from psimil.figures import reliability_table
from psimil.report.calls import Words, difference_words, reason_words, threshold_words
from psimil.results.localisation import auc_within_bags, closeness_to_middle, localisation_error
from psimil.results.metrics import bag_metrics
from psimil.viewer.app import TYPES, static_files
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.state import ViewerState
from viewed import Browser, feature_results, viewed_of

ROW = {
    "key", "id", "probability", "std", "lower", "upper", "log_odds", "called", "refer", "reason", "novelty",
    "novel", "truth", "size", "notes", "verdict", "n_notes",
}  # fmt: skip


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return Browser(viewed_of("features", tmp_path_factory.mktemp("features")))


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    return Browser(viewed_of("ct", tmp_path_factory.mktemp("ct")))


def bags(client, **query):
    answer = client.get("/api/bags", params={"limit": 500, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["bags"]


def numbers(client, **query):
    return [client.viewed.numbers[row["key"]] for row in bags(client, **query)]


def test_the_set_is_counted(client):
    results, found = client.viewed.results, client.viewed.results.prediction
    summary = client.get("/api/set").json()
    assert summary["kind"] == results.kind
    assert (summary["bags"], summary["instances"]) == (len(found.ids), len(found.latent_mean))
    assert summary["positives_called"] == int(found.label.sum()) and summary["to_refer"] == int(found.refer.sum())
    assert summary["has_novelty"] == (found.novelty is not None) == (results.kind != "images")
    assert summary["novel"] == int(found.novel.sum()) and (summary["novel"] > 0) == summary["has_novelty"]
    assert (summary["threshold"], summary["instance_threshold"]) == (found.threshold, found.instance_threshold)
    assert summary["has_images"] == (results.kind != "features") and summary["has_volumes"] == (results.kind == "ct")
    assert summary["model"] == dict(results.model)
    assert summary["thresholds"] == threshold_words(found.threshold, found.instance_threshold, Words.of(results.kind))
    assert summary["note"] == "Research use only, not a medical device."
    known = results.truth >= 0
    expected = bag_metrics(results.truth[known], found.prob[known], found.threshold, found.log_odds[known])
    assert summary["scores"] == {name: None if np.isnan(value) else value for name, value in expected.items()}
    table = reliability_table(results.truth[known], found.prob[known])
    assert summary["reliability"]["mean"] == table["probability"].tolist()
    assert summary["reliability"]["share"] == table["positives"].tolist()
    assert summary["reliability"]["count"] == table["count"].tolist()
    assert [low for low, _ in summary["reliability"]["edges"]] == table["bin_start"].tolist()


def test_a_bag_whose_instances_are_called_unlike_it_says_why(tmp_path):
    results = feature_results()
    unlike = replace(results, prediction=replace(results.prediction, threshold=1 - 1e-12, instance_threshold=0.1))
    client = Browser(ViewerState(unlike, FeedbackStore(tmp_path)))
    said = [client.get(f"/api/bags/{row['key']}").json()["difference"] for row in bags(client)]
    words = Words.of("features")
    assert said == [difference_words(unlike.prediction, n, words) for n in unlike.by_probability()] and any(said)


def test_without_truth_there_are_no_scores(tmp_path):
    results = replace(feature_results(), truth=np.full(30, -1, np.int8))
    summary = Browser(ViewerState(results, FeedbackStore(tmp_path))).get("/api/set").json()
    assert (summary["has_truth"], summary["scores"], summary["reliability"]) == (False, None, None)
    assert summary["inside"] is not None  # of the instances whose label is known
    nothing = replace(results, instance_truth=np.full_like(results.instance_truth, -1))
    assert Browser(ViewerState(nothing, FeedbackStore(tmp_path))).get("/api/set").json()["inside"] is None


def told(value):
    return None if np.isnan(value) else value


def test_what_is_found_inside_bags_is_told(client):
    """Scans have positions in mm; tables have an order only if the model is a chain, which its card says."""
    results, found = client.viewed.results, client.viewed.results.prediction
    inside = client.get("/api/set").json()["inside"]
    asked = results.instance_truth, found.instance_log_odds, found.offsets
    assert inside["model"]["auc_within_bags"] == auc_within_bags(*asked)
    scans = results.kind == "ct"
    error = localisation_error(*asked, results.positions) if scans else None
    assert (inside["unit"], inside["model"]["localisation_error"]) == ("mm" if scans else None, error)
    middle = closeness_to_middle(found.offsets, results.positions) if scans else None
    expected = auc_within_bags(results.instance_truth, middle, found.offsets) if scans else np.nan
    assert inside["middle"]["auc_within_bags"] == told(expected)
    known = [set(part[part >= 0].tolist()) for part in found.split(results.instance_truth)]
    assert inside["n_both_kinds"] == known.count({0, 1}) > 0
    assert inside["n_positive"] == sum(1 in part for part in known)


def test_the_rows_of_a_chain_are_in_order(tmp_path):
    results = feature_results()
    chain = replace(results, model=dict(results.model) | {"labels": "a chain, neighbours linked by J = 1"})
    inside = Browser(ViewerState(chain, FeedbackStore(tmp_path))).get("/api/set").json()["inside"]
    rows = np.concatenate([np.arange(n) for n in np.diff(results.prediction.offsets)])
    error = localisation_error(
        results.instance_truth, results.prediction.instance_log_odds, results.prediction.offsets, rows
    )
    assert (inside["unit"], inside["model"]["localisation_error"]) == ("rows", error)


def test_bags_are_the_prediction(client):
    results, found = client.viewed.results, client.viewed.results.prediction
    rows = bags(client)
    assert len(rows) == len(found.ids) and all(set(row) == ROW for row in rows)
    order = numbers(client)
    assert order == np.argsort(-found.log_odds, kind="stable").tolist()
    for name, column in (
        ("probability", found.prob), ("std", found.std), ("lower", found.lower), ("upper", found.upper),
        ("log_odds", found.log_odds), ("called", found.label), ("refer", found.refer), ("size", np.diff(found.offsets)),
        ("novel", found.novel), ("reason", found.reason),
    ):  # fmt: skip
        assert [row[name] for row in rows] == column[order].tolist(), name
    novelty = [None] * len(rows) if found.novelty is None else found.novelty[order].tolist()
    assert [row["novelty"] for row in rows] == novelty
    assert [row["truth"] for row in rows] == [None if t < 0 else t for t in results.truth[order].tolist()]
    assert [row["notes"] for row in rows] == [results.notes[n] for n in order]


@pytest.mark.parametrize(
    ("sort", "column"),
    [
        ("probability", lambda r: r.prediction.log_odds),
        ("uncertainty", lambda r: r.prediction.std),
        ("novelty", lambda r: r.prediction.novelty),
        ("truth", lambda r: r.truth),
        ("size", lambda r: np.diff(r.prediction.offsets)),
        ("id", lambda r: np.arange(len(r))),
    ],
)
def test_bags_are_sorted_both_ways(features, sort, column):
    values = column(features.viewed.results)
    for descending in (True, False):
        found = values[numbers(features, sort=sort, descending=descending)]
        assert (np.diff(-found if descending else found) >= 0).all()


def test_scans_are_sorted_by_their_hash(scans):
    rows = [row["id"] for row in bags(scans, sort="id", descending=False)]
    assert rows == sorted(rows) == sorted(map(str, scans.viewed.results.prediction.ids))


def test_bags_are_filtered(features):
    found = features.viewed.results.prediction
    assert set(numbers(features, show="refer")) == set(np.flatnonzero(found.refer))
    assert set(numbers(features, show="novel")) == set(np.flatnonzero(found.novel)) != set()
    assert set(numbers(features, show="positive")) == set(np.flatnonzero(found.label))
    assert set(numbers(features, show="negative")) == set(np.flatnonzero(1 - found.label))
    assert len(numbers(features, show="all")) == len(found.ids)
    assert 0 < found.label.sum() < len(found.ids) and found.refer.any()


def test_feedback_filters(tmp_path):
    client = Browser(viewed_of("features", tmp_path))
    first, second, third = (row["key"] for row in bags(client)[:3])
    for body in (
        {"bag": first, "verdict": "disagree"},
        {"bag": second, "instance": 1, "verdict": "disagree", "note": "look"},
        {"bag": third, "verdict": "agree"},
    ):
        assert client.post("/api/feedback", json=body).status_code == 200
    assert [row["key"] for row in bags(client, show="disagreed")] == [first, second]
    assert [row["key"] for row in bags(client, show="noted")] == [second]
    assert [row["verdict"] for row in bags(client)[:4]] == ["disagree", None, "agree", None]
    assert [row["n_notes"] for row in bags(client)[:3]] == [0, 1, 0]


def test_pages_of_the_worklist_join(features):
    rows = bags(features)
    parts = [features.get("/api/bags", params={"offset": o, "limit": 7}).json() for o in range(0, 35, 7)]
    assert [row for part in parts for row in part["bags"]] == rows
    assert {part["total"] for part in parts} == {len(rows)}


@pytest.mark.parametrize(
    "query", ["limit=501", "limit=0", "offset=-1", "sort=x", "show=x", "descending=x", "limit=1e3"]
)
def test_a_query_that_is_not_valid_is_422_and_not_repeated(features, query):
    answer = features.get(f"/api/bags?{query}")
    assert answer.status_code == 422 and answer.json() == {"error": f"not valid: {query.split('=')[0]}."}


def test_a_bag_has_its_instances(client):
    results, found = client.viewed.results, client.viewed.results.prediction
    keys = [row["key"] for row in bags(client)]
    for place, key in enumerate(keys):
        number = client.viewed.numbers[key]
        rows = results.instances_of(number)
        bag = client.get(f"/api/bags/{key}").json()
        assert bag["previous"] == (keys[place - 1] if place else None)
        assert bag["next"] == (keys[place + 1] if place + 1 < len(keys) else None)
        assert [i["index"] for i in bag["instances"]] == list(range(rows.stop - rows.start))
        for name, column in (
            ("probability", found.instance_prob), ("std", found.instance_std), ("lower", found.instance_lower),
            ("upper", found.instance_upper), ("log_odds", found.instance_log_odds), ("called", found.instance_label),
            ("novel", found.instance_novel),
        ):  # fmt: skip
            assert [i[name] for i in bag["instances"]] == column[rows].tolist(), name
        known = found.instance_novelty
        unknown = [None] * (rows.stop - rows.start)
        assert [i["novelty"] for i in bag["instances"]] == (unknown if known is None else known[rows].tolist())
        assert bag["why"] == reason_words(found, number, Words.of(results.kind))
        truth = [None if t < 0 else t for t in results.instance_truth[rows].tolist()]
        assert [i["truth"] for i in bag["instances"]] == truth
        places = [None] * len(truth) if results.positions is None else results.positions[rows].tolist()
        assert [i["position"] for i in bag["instances"]] == places


def test_telling_features_are_named(features):
    results, key = features.viewed.results, features.viewed.keys[3]
    row = results.instances_of(3).start
    first = features.get(f"/api/bags/{key}").json()["instances"][0]["telling"]
    assert [t["name"] for t in first] == [results.feature_names[n] for n in results.features[row]]
    assert [t["value"] for t in first] == results.values[row].tolist()
    assert [t["effect"] for t in first] == results.effects[row].tolist()


def test_what_instances_owe_to_their_bags_is_told_where_it_is_known(features, scans):
    results = features.viewed.results
    for number in (0, 3):
        rows = results.instances_of(number)
        answer = features.get(f"/api/bags/{features.viewed.keys[number]}").json()["instances"]
        owed = zip(results.own_effect[rows].tolist(), results.bag_effect[rows].tolist(), strict=True)
        assert [one["owed"] for one in answer] == [{"own": own, "bag": bag} for own, bag in owed]
    answer = scans.get(f"/api/bags/{scans.viewed.keys[0]}").json()["instances"]
    assert {one["owed"] for one in answer} == {None}


def test_names_are_numbers_unless_asked_for(tmp_path):
    ids = [f"patient {n}" for n in range(30)]
    for show_ids, expected in ((False, "bag 4"), (True, "patient 3")):
        client = Browser(ViewerState(feature_results(ids=ids), FeedbackStore(tmp_path), show_ids=show_ids))
        assert client.get(f"/api/bags/{client.viewed.keys[3]}").json()["id"] == expected
        assert ("patient" in client.get("/api/bags").text) == show_ids


def test_unknown_things_are_404_and_other_methods_405(features):
    key = features.viewed.keys[0]
    for path in ("/api/bags/AAAAAAAAAAAA", "/api/bags/AAAAAAAAAAAA/sprite", "/api/bags/AAAAAAAAAAAA/slices/0",
                 "/bag/AAAAAAAAAAAA", "/nothing", "/api", "/static/nothing.js", "/docs", "/redoc", "/openapi.json",
                 "/worklist/", f"/api/bags/{key}/"):  # fmt: skip
        answer = features.get(path)
        assert answer.status_code == 404 and set(answer.json()) == {"error"}, path
    for method, path in (("DELETE", "/api/set"), ("PUT", f"/api/bags/{key}"), ("POST", "/api/bags"),
                         ("PATCH", "/worklist"), ("DELETE", "/api/feedback"),
                         ("OPTIONS", "/api/feedback")):  # fmt: skip
        answer = features.request(method, path, headers={"Content-Type": "application/json"})
        assert answer.status_code == 405 and answer.headers["allow"] and set(answer.json()) == {"error"}, path


def test_keys_are_new_at_every_start(tmp_path):
    results = feature_results()
    first, second = (ViewerState(results, FeedbackStore(tmp_path)) for _ in range(2))
    assert not set(first.keys) & set(second.keys) and len(set(first.keys)) == len(results)


def test_pages_hold_no_data_and_say_what_they_are_for(client):
    for path in ("/", "/worklist", f"/bag/{client.viewed.keys[0]}"):
        answer = client.get(path)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "Research use only" in answer.text
        assert client.viewed.keys[0] not in answer.text and client.settings.token not in answer.text
        for name in client.viewed.names:
            assert name not in answer.text


def test_the_schema_is_behind_the_session(features, tmp_path):
    paths = features.get("/api/openapi.json").json()["paths"]
    assert set(paths) == {
        "/api/set", "/api/bags", "/api/bags/{key}", "/api/bags/{key}/slices/{index}", "/api/bags/{key}/sprite",
        "/api/bags/{key}/heat", "/api/feedback", "/session",
    }  # fmt: skip
    assert Browser(features.viewed, signed_in=False).get("/api/openapi.json").status_code == 401


def test_static_files_are_those_of_the_package(features):
    table = static_files()
    assert table, "the package has no static files"
    for name, data in table.items():
        answer = features.get(f"/static/{name}")
        assert answer.content == data and answer.headers["content-type"] == TYPES["." + name.rsplit(".")[-1]]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_answers_are_strict_json(client):
    for path in ("/api/set", "/api/bags", f"/api/bags/{client.viewed.keys[0]}"):
        json.loads(client.get(path).text, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize("sort", ["probability", "uncertainty", "novelty", "id", "truth", "size"])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("show", ["all", "refer", "positive"])
def test_previous_and_next_keep_the_order_of_the_worklist(features, sort, descending, show):
    query = f"sort={sort}&descending={descending}&show={show}"
    keys = [row["key"] for row in features.get(f"/api/bags?{query}&limit=500").json()["bags"]]
    assert len(keys) > 1
    for before, key, after in zip([None, *keys], keys, [*keys[1:], None], strict=False):
        bag = features.get(f"/api/bags/{key}?{query}").json()
        assert (bag["previous"], bag["next"]) == (before, after)


def test_a_bag_that_the_filter_leaves_out_lies_between_those_that_it_shows(features):
    rows = features.get("/api/bags?limit=500").json()["bags"]
    shown = [row["refer"] for row in rows]
    place = next(n for n in range(1, len(rows)) if not shown[n] and any(shown[:n]) and any(shown[n:]))
    bag = features.get(f"/api/bags/{rows[place]['key']}?show=refer").json()
    assert bag["previous"] == [row["key"] for row in rows[:place] if row["refer"]][-1]
    assert bag["next"] == next(row["key"] for row in rows[place:] if row["refer"])

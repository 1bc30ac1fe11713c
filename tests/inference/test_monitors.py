"""Early stopping: what counts as better, how long it waits, and which record it keeps."""

from types import SimpleNamespace

from psimil.inference.history import EarlyStopping


def run(scores, **settings):
    stopping = EarlyStopping(lambda record: record.score, **settings)
    for number, score in enumerate(scores, start=1):
        if stopping(SimpleNamespace(score=score)):
            return number, stopping.best.score
    return None, stopping.best.score


def test_waits_as_long_as_it_is_patient():
    assert run([0.5, 0.6, 0.6, 0.59, 0.58, 0.9], patience=3) == (5, 0.6)


def test_a_gain_within_the_tolerance_is_no_gain():
    scores = [0.5, 0.5009, 0.5018, 0.5027]
    assert run(scores, patience=3) == (None, 0.5027)
    assert run(scores, patience=3, tolerance=1e-3) == (None, 0.5018)  # 0.5018 beats 0.5, 0.5027 does not beat 0.5018
    assert run([*scores[:2], 0.5, 0.5], patience=3, tolerance=1e-3) == (4, 0.5)

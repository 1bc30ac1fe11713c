"""The viewer answers what its schema allows, and what it does not allow, as the schema says; never with a 5xx."""

import re
import time

import numpy as np
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import integers

from viewed import Browser, serving, viewed_of

OPERATIONS = [
    "GET /api/set", "GET /api/bags", "GET /api/bags/{key}", "GET /api/bags/{key}/slices/{index}",
    "GET /api/bags/{key}/sprite", "GET /api/bags/{key}/heat", "POST /api/feedback", "POST /session",
]  # fmt: skip
NO_INPUT = "GET /api/set"
KEY = re.compile(r"[A-Za-z0-9_-]{12}")
FEW, MANY = 25, 2000


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A served result set of scans, its settings, and its schema."""
    viewed = viewed_of("ct", tmp_path_factory.mktemp("ct"))
    with serving(viewed) as found:
        schema = schemathesis.openapi.from_dict(Browser(viewed, settings=found).get("/api/openapi.json").json())
        schema.config.update(base_url=found.address)
        yield viewed, found, schema


def real(viewed, case):
    """The case with the key of a bag in place of a key that is only well-formed."""
    path = case.path_parameters or {}
    if KEY.fullmatch(str(path.get("key", ""))):
        path["key"] = viewed.keys[len(str(path)) % len(viewed.keys)]
        if str(path.get("index", "")).isdecimal():
            path["index"] = int(path["index"]) % 40
    body = case.body if isinstance(case.body, dict) else {}
    if KEY.fullmatch(str(body.get("bag", ""))):
        body["bag"] = viewed.keys[0]
    return case


def fuzz(opened, label, cases):
    """Run every check of schemathesis on one operation; seconds of each request, and which statuses came."""
    viewed, found, schema = opened
    operation = next(r.ok() for r in schema.get_all_operations() if r.ok().label == label)
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    modes = modes[:1] if label == NO_INPUT else modes
    seconds, statuses = [], set()
    session = requests.Session()
    session.trust_env = False
    headers, cookies = {"Origin": found.address}, {found.cookie: found.session}
    for mode in modes:
        strategy = operation.as_strategy(generation_mode=mode, cookies=cookies)

        @settings(max_examples=cases // len(modes), deadline=None, database=None, derandomize=True, print_blob=False,
                  phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(case=strategy, turn=integers(0, 1 << 40))  # the turn keeps an operation of few cases going
        def run(case, turn):
            started = time.perf_counter()
            answer = real(viewed, case).call(session=session, headers=headers)
            seconds.append(time.perf_counter() - started)
            statuses.add(answer.status_code)
            case.validate_response(answer, headers=headers, transport_kwargs={"session": session})

        run()
    return np.array(seconds), statuses


@pytest.mark.parametrize("label", OPERATIONS)
def test_a_few_cases_of_every_operation(opened, label):
    seconds, statuses = fuzz(opened, label, FEW)
    assert len(seconds) and max(statuses) < 500


@pytest.mark.slow
@pytest.mark.parametrize("label", OPERATIONS)
def test_two_thousand_cases_of_every_operation(opened, label, capsys):
    """G6: no 5xx, and metadata within 200 ms at the 99th percentile, which is printed and not asserted."""
    seconds, statuses = fuzz(opened, label, MANY)
    with capsys.disabled():
        p99 = 1000 * np.quantile(seconds, 0.99)
        print(f"\n{label}: {len(seconds)} cases, statuses {sorted(statuses)}, p99 {p99:.1f} ms")
    assert max(statuses) < 500


def test_every_operation_is_tried(opened):
    assert sorted(r.ok().label for r in opened[2].get_all_operations()) == sorted(OPERATIONS)

"""Manifests of something else are called that, even when nothing in them is damaged."""

import pytest

from psimil.foundations.errors import InputError
from psimil.store.digest import Digest
from psimil.store.manifest import FEATURES, IDS, LABELS, OFFSETS, Manifest, Segment, decoded, expected_bytes

SIZES = {**expected_bytes(2, 3, 1, "float32"), IDS: 10}
FILES = {name: Digest(SIZES[name], "0" * 64) for name in (FEATURES, OFFSETS, LABELS, IDS)}
MANIFEST = Manifest("float32", 1, "text", (Segment("part-0001", 2, 3, FILES),))


def test_what_was_encoded_is_decoded():
    assert decoded(MANIFEST.encoded()) == MANIFEST


@pytest.mark.parametrize(("ours", "theirs"), [(b"psimil store", b"other store"), (b'"version": 1', b'"version": 0')])
def test_another_format_is_named(ours, theirs):
    with pytest.raises(InputError, match="not of a psimil store"):
        decoded(MANIFEST.encoded().replace(ours, theirs))


def test_a_later_version_asks_for_an_update():
    with pytest.raises(InputError, match="the store has version 4"):
        decoded(MANIFEST.encoded().replace(b'"version": 1', b'"version": 4'))


@pytest.mark.parametrize("count", [b"-1", b"1.0", b"true", b"0"])
def test_a_number_of_features_that_is_none_is_refused(count):
    with pytest.raises(InputError, match="features"):
        decoded(MANIFEST.encoded().replace(b'"features": 1', b'"features": ' + count))

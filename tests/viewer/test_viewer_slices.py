"""Slices in Hounsfield units and thumbnails are those of the scans and of the results."""

import io

import numpy as np
import pytest
from PIL import Image

from psimil.results.heat import HEAT_WORDS
from psimil.viewer.settings import Settings
from psimil.viewer.state import ViewerState
from viewed import Browser, viewed_of


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    return Browser(viewed_of("ct", tmp_path_factory.mktemp("ct")))


def test_slices_are_hounsfield_units(scans):
    viewed = scans.viewed
    for number, key in enumerate(viewed.keys):
        picture = scans.get(f"/api/bags/{key}").json()["image"]
        assert picture["kind"] == "hu" and (picture["rows"], picture["columns"]) == (32, 32)
        for index in (0, 5):
            plain = scans.get(f"/api/bags/{key}/slices/{index}", headers={"Accept-Encoding": "gzip"})
            assert "content-encoding" not in plain.headers  # packing takes longer than a local connection
            assert plain.headers["content-type"] == "application/octet-stream"
            assert plain.headers["cache-control"] == "private, no-store"
            hu = np.frombuffer(plain.content, "<i2").reshape(32, 32)
            np.testing.assert_array_equal(hu, viewed.slice(number, index))
            assert hu.min() < -900 and hu.max() > 20
    assert scans.get(f"/api/bags/{viewed.keys[0]}/slices/9999").status_code == 404


def test_slices_are_packed_for_other_computers_that_accept_it(scans):
    far = Browser(scans.viewed, settings=Settings(8123, host="192.0.2.7"))
    path = f"/api/bags/{scans.viewed.keys[0]}/slices/0"
    packed = far.get(path, headers={"Accept-Encoding": "gzip"})
    plain = far.get(path, headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
    assert packed.content == plain.content == scans.get(path).content


def test_slices_are_in_the_order_of_the_instances(scans):
    """The windowed slice is the thumbnail of the same instance."""
    results = scans.viewed.results
    rows = results.instances_of(0)
    for index in (0, 7, rows.stop - rows.start - 1):
        content = scans.get(f"/api/bags/{scans.viewed.keys[0]}/slices/{index}").content
        hu = np.frombuffer(content, "<i2").reshape(32, 32)
        shown = np.rint(255 * np.clip((hu + 20.0) / 200.0, 0, 1))  # the blood window, -20 to 180
        np.testing.assert_allclose(results.images[rows.start + index], shown, atol=1)


def test_sprites_hold_the_thumbnails(client):
    images, key = client.viewed.results.images, client.viewed.keys[1]
    answer = client.get(f"/api/bags/{key}/sprite")
    picture = client.get(f"/api/bags/{key}").json()["image"]
    if images is None:
        assert answer.status_code == 404 and picture["kind"] == "none"
        return
    assert answer.headers["content-type"] == "image/png"
    sprite = np.asarray(Image.open(io.BytesIO(answer.content)))
    height, width, across = picture["thumb_rows"], picture["thumb_columns"], picture["sprite_columns"]
    assert (height, width, across) == (*images.shape[1:], 16)
    for index, row in enumerate(range(*client.viewed.results.instances_of(1).indices(len(images)))):
        top, left = height * (index // across), width * (index % across)
        np.testing.assert_array_equal(sprite[top : top + height, left : left + width], images[row])


def test_heat_maps_lie_as_the_thumbnails_do(client):
    results, key = client.viewed.results, client.viewed.keys[1]
    answer, picture = client.get(f"/api/bags/{key}/heat"), client.get(f"/api/bags/{key}").json()["image"]
    if results.heat is None:
        assert answer.status_code == 404 and "--heat" in answer.text and picture["heat"] is None
        return
    rows = results.instances_of(1)
    assert picture["heat"] == (HEAT_WORDS if results.heat[rows].any() else None)
    sprite = np.asarray(Image.open(io.BytesIO(answer.content)))
    height, width = results.heat.shape[1:]
    for index, row in enumerate(range(rows.start, rows.stop)):
        top, left = height * (index // 16), width * (index % 16)
        np.testing.assert_array_equal(sprite[top : top + height, left : left + width], results.heat[row])


def test_bags_without_dicom_have_thumbnails_only(scans):
    viewed = ViewerState(scans.viewed.results, scans.viewed.feedback)
    client = Browser(viewed)
    key = viewed.keys[0]
    assert client.get(f"/api/bags/{key}").json()["image"]["kind"] == "thumbnail"
    assert client.get(f"/api/bags/{key}/slices/0").status_code == 404
    assert client.get(f"/api/bags/{key}/sprite").status_code == 200
    assert client.get("/api/set").json()["has_volumes"] is False

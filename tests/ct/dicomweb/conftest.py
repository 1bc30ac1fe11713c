"""An archive, what disturbs the way to it, and the folder of a watch."""

import numpy as np
import pytest


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "orthanc").mkdir()
    from orthanc import orthanc

    with orthanc(tmp_path / "orthanc") as archive:
        yield archive


@pytest.fixture
def proxy(archive):
    from faulty_proxy import FaultyProxy
    from watched import TIMEOUT

    proxy = FaultyProxy(archive.port, np.random.default_rng(0), delay=1.5 * TIMEOUT)
    yield proxy
    proxy.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "watch"

"""What examples in docstrings may count on: an empty folder of their own, in which they write and read."""

import os
from pathlib import Path

import pytest

os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}  # before anyone imports MLflow


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example begins in a new folder."""
    monkeypatch.chdir(tmp_path)

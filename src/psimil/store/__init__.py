"""Bags on disk: a folder with features that are read when they are used, written in bounded memory."""

from psimil.store.manifest import Manifest, is_store, read_manifest
from psimil.store.reader import StoredBags, open_store, verify_store
from psimil.store.tables import import_bags
from psimil.store.writer import StoreWriter

__all__ = [
    "Manifest",
    "StoreWriter",
    "StoredBags",
    "import_bags",
    "is_store",
    "open_store",
    "read_manifest",
    "verify_store",
]

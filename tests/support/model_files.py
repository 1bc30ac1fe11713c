"""Taking model files apart and putting them together again, honestly or not."""

import json

import numpy as np
from safetensors.numpy import load, save

from psimil.files.sealed import checksum


def take_apart(data):
    """Tensors and the JSON text of a model file."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return {k: v.copy() for k, v in load(data).items()}, json.loads(header["__metadata__"]["psimil"])


def put_together(tensors, text):
    """A file whose checksum is right, whatever it holds."""
    text = text if isinstance(text, str) else json.dumps(text)
    tensors = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    return save(tensors, metadata={"psimil": text, "sha256": checksum(tensors, text)})


def raw_file(header, body=b""):
    """A safetensors file with a header of one's own."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body

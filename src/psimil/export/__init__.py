"""A fitted model for other programs: a graph for ONNX runtimes, and a folder as model hubs lay it out."""

from psimil.export.onnx_model import to_onnx
from psimil.export.pretrained import save_pretrained

__all__ = ["save_pretrained", "to_onnx"]

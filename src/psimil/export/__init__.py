"""A fitted model for other programs: a graph for ONNX runtimes, folders of model hubs and of MLflow, and its runs."""

from psimil.export.mlflow_model import log_mlflow, save_mlflow
from psimil.export.mlflow_run import log_fit, log_passes
from psimil.export.onnx_model import to_onnx
from psimil.export.pretrained import save_pretrained

__all__ = ["log_fit", "log_mlflow", "log_passes", "save_mlflow", "save_pretrained", "to_onnx"]

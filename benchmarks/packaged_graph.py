"""Writes the graph of a model in an installed package without its weights, which stay in that package.

python -m benchmarks.packaged_graph
"""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime

from knowledge_pipeline.embedding.encoders import PACKAGED_MODELS, find_packaged_folder

_MIN_BYTES = 1024  # of a constant that stays in the file


def write_graph(model_file: Path) -> bytes:
    """The model in a file as onnxruntime optimises it, with references to the file's constants."""
    content = model_file.read_bytes()
    model = _optimize(model_file)
    del model.graph.value_info[:]  # which onnxruntime infers again
    for tensor in model.graph.initializer:
        floats = np.array(tensor.float_data, "<f4").tobytes()  # as the file has them
        values = tensor.raw_data or floats
        if len(values) >= _MIN_BYTES:
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
            _refer(
                tensor, {"location": model_file.name, "offset": content.index(values), "length": len(values)}
            )
        elif tensor.int32_data:  # bytes, of which each would take two
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    return model.SerializeToString(deterministic=True)


def _optimize(model_file: Path) -> onnx.ModelProto:
    """By what holds on every processor."""
    with TemporaryDirectory() as folder:
        options, written = onnxruntime.SessionOptions(), Path(folder) / "model.onnx"
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(written)
        onnxruntime.InferenceSession(str(model_file), options, providers=["CPUExecutionProvider"])
        return onnx.load(written)


def _refer(tensor: onnx.TensorProto, location: dict[str, str | int]) -> None:
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in location.items():
        tensor.external_data.add(key=key, value=str(value))


def _main() -> None:
    for name, model in PACKAGED_MODELS.items():
        graph = write_graph(find_packaged_folder(name) / "model.onnx")
        model.graph.write_bytes(gzip.compress(graph, mtime=0))


if __name__ == "__main__":
    _main()

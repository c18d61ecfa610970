"""Where the tensors of a safetensors file lie (https://github.com/huggingface/safetensors#format).

The safetensors library hides the offsets, by which onnxruntime and numpy map the weights in place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I64": 8, "I32": 4, "I8": 1}
_LENGTH_BYTES = 8  # of the header's length, at the start of the file


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file, in C order."""

    dtype: str  # "F32", "F16", ...
    shape: tuple[int, ...]
    offset: int  # bytes from the start of the file
    length: int  # bytes


def read_tensors(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a file by name, without reading them; none where there is no file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is damaged: its header is, or a tensor reaches beyond the end.
    """
    if not path.is_file():
        return {}
    size = path.stat().st_size
    with path.open("rb") as file:
        start = _LENGTH_BYTES + int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if start > size:
            raise ValueError(f"the header of {path.name} reaches beyond its end")
        header = json.loads(file.read(start - _LENGTH_BYTES))
    tensors: dict[str, Tensor] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        tensor = Tensor(entry["dtype"], tuple(entry["shape"]), start + first, end - first)
        expected = math.prod(tensor.shape) * _ITEM_BYTES.get(tensor.dtype, 0)
        if start + end > size or expected not in (0, tensor.length):
            raise ValueError(f"the tensor {name} of {path.name} is cut")
        tensors[name] = tensor
    return tensors

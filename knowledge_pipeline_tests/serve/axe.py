"""axe, the checker of accessibility, of npm's registry: https://github.com/dequelabs/axe-core"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

VERSION = "4.14.1"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice")
RUN = """async (rules) => {
  scrollTo(0, 0); // the head covers what is scrolled below it
  const options = {runOnly: {type: "tag", values: rules}, resultTypes: ["violations"]};
  const {violations, passes} = await axe.run(document, options);
  return {
    passes: passes.length,
    violations: violations.flatMap(({id, help, nodes}) => nodes.slice(0, 3).map(({html, any, all, none}) => {
      const reasons = [...any, ...all, ...none].map((each) => each.message).join("; ");
      return `${id} (${help}): ${html.slice(0, 200)} ${reasons}`;
    })),
  };
}"""


def load_axe(cache: Path) -> str:
    """Its script, which is downloaded once; skips the test where that cannot be."""
    kept = Path(os.environ.get("KNOWLEDGE_TEST_AXE") or cache / f"axe-{VERSION}.min.js")
    if not kept.exists():
        if not (npm := shutil.which("npm")):
            pytest.skip("no npm to download axe with: install it, or name axe.min.js in KNOWLEDGE_TEST_AXE")
        command = [npm, "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", str(cache)]
        packed = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if packed.returncode:
            pytest.skip(f"npm cannot download axe: {packed.stderr.strip()[:200]}")
        archive = cache / packed.stdout.strip().splitlines()[-1]
        with tarfile.open(archive) as opened:
            script = opened.extractfile("package/axe.min.js")
            assert script
            kept.write_bytes(script.read())
        archive.unlink()
    return kept.read_text()


def find_violations(page: Page, axe: str) -> list[str]:
    """What axe finds in the page as it is now, one line for each element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe)
    found: dict[str, Any] = page.evaluate(RUN, list(RULES))
    assert found["passes"] > 10, "axe has hardly found anything to check"
    return found["violations"]

"""Write a small store with this program or with an earlier one, to be migrated by tests.

    python -m knowledge_pipeline_tests.write_store knowledge_pipeline_tests/corpus/stores/v4.tar.xz

writes the store of this checkout's program. With `--program FOLDER`, where a commit was unpacked by
`git archive COMMIT | tar x -C FOLDER`, the program of that commit writes it: that is how the stores of
earlier schemas were made. It holds what a migration must not lose: documents that their sources no longer
have, vectors, logs, tokens, two releases and a code graph.

With `--languages` it holds texts of many languages instead: `corpus/words/v1.tar.xz` is such a store, whose
words have their first form.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

DIMENSIONS = 32
PORT = 18431  # the endpoint's address is part of the name of its space: vectors are found at no other
KEY_VARIABLE = "EMBEDDING_KEY"

FILES = {
    "code/sessions.py": '''"""Sessions of the shop."""


class Session:
    """Somebody who is signed in."""

    def __init__(self, user: str) -> None:
        self.user = user


def sign_session(key: str, session: Session) -> str:
    """Sign a session with the weekly key."""
    return key + session.user
''',
    "code/checkout.py": '''"""Paying for a basket."""

from sessions import Session, sign_session


def retry_payment(session: Session, times: int) -> bool:
    """Send a failed payment again, with a fresh signature."""
    return any(sign_session("key", session) for _ in range(times))
''',
    "code/legacy.py": '''"""The old cash desk, which the next release removes."""


def count_coins(coins: list[int]) -> int:
    """Add up what lies in the drawer."""
    return sum(coins)
''',
    "docs/keys.md": "# Keys\n\nThe session signing key is rotated every week.\n\n## Who\n\nThe operators.\n",
    "docs/payments.md": "# Payments\n\nA failed payment is tried again three times, see docs/keys.md.\n",
    "docs/cash.md": "# Cash desk\n\nCoins are counted at noon by the quartermaster.\n",
    "api/api.yaml": """openapi: 3.0.0
info: {title: Shop, version: "1"}
paths:
  /payments:
    post:
      summary: Pay for a basket
      responses: {"200": {description: The payment was made}}
""",
    "records/notes.jsonl": (
        '{"id": "n1", "title": "Key rotation", "text": "Keys are rotated on Mondays."}\n'
        '{"id": "n2", "title": "Fire drill", "text": "The fire drill is in autumn."}\n'
    ),
}
CHANGES: dict[str, str | None] = {  # between the two releases; None: removed
    "code/legacy.py": None,
    "docs/cash.md": None,
    "docs/payments.md": "# Payments\n\nA failed payment is tried again five times.\n",
}
LANGUAGES = {  # no two have a word in common
    "docs/zh.md": "# 运维手册\n\n数据库备份策略每周检查一次，备份文件保存在对象存储中。\n",
    "docs/ja.md": "# 運用\n\nデータベースのバックアップは毎晩実行されます。黒い猫が寝ています。\n",
    "docs/ko.md": "# 안내\n\n데이터베이스를 매일 밤 백업합니다. 학교에서 책을 읽었다.\n",
    "docs/th.md": "# คู่มือ\n\nการสำรองฐานข้อมูลทำทุกคืนโดยผู้ดูแลระบบ\n",
    "docs/hi.md": "# हिन्दी\n\nयह डेटाबेस का बैकअप है और सुरक्षा ज़रूरी है।\n",
    "docs/nfd.md": "# Handbuch\n\nDie Pru\u0308fung findet wo\u0308chentlich statt.\n",
    "docs/nfc.md": "# Aufgaben\n\nDas Büro erledigt die Löschung.\n",
    "docs/soft.md": "# Trails\n\nHyphens in the archi\u00adtec\u00adtural draw\u00ading.\n",
    "docs/ligature.md": "# Types\n\nThe o\ufb03ce con\ufb01rmed the re\ufb02ection.\n",
    "docs/lines.md": "The explo-\nration of the cave began at noon.\n",
    "docs/dash.md": "# Plain — mostly\n\nNothing here “needs” another form, not even Größe.\n",
    "docs/small.md": f"# First\n\n{'plain ' * 260}\n\n# Second\n\n{'simple ' * 260}\n\n术语表\n",
    **{
        f"docs/en{number}.md": f"# Topic {number}\n\nWorkers restart {number} times.\n" for number in range(9)
    },
}
SETTINGS = f"""version: 1
store: store
embedding:
  provider: openai
  model: hashed-words
  base_url: http://127.0.0.1:{PORT}/v1
  api_key: ${{{KEY_VARIABLE}}}
  dimensions: {DIMENSIONS}
sources:
  - {{id: code, type: code, connection: {{type: local, path: files/code}}}}
  - {{id: docs, type: markdown, connection: {{type: local, path: files/docs}}}}
  - {{id: api, type: openapi, connection: {{type: local, path: files/api}}}}
  - {{id: records, type: archive, connection: {{type: local, path: files/records}}}}
"""


def write_files(folder: Path, files: dict[str, str | None] | dict[str, str]) -> None:
    """Write files below a folder, or remove those that are None."""
    for name, text in files.items():
        path = folder / "files" / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def write_store(folder: Path, program: Path, *, languages: bool = False) -> None:
    """Index, change, refresh, ask: everything by the command line of the program in a folder.

    Of texts in many languages it is indexed alone.
    """
    with OpenAIServer(port=PORT, dimensions=DIMENSIONS) as server:
        variables = {KEY_VARIABLE: server.key, "PYTHONPATH": str(program)}

        def knowledge(*arguments: str, needed: bool = True) -> None:
            command = [sys.executable, "-m", "knowledge_pipeline.cli", *arguments]
            subprocess.run(command, cwd=folder, env={**os.environ, **variables}, check=needed)

        if languages:
            settings = "".join(
                line for line in SETTINGS.splitlines(True) if "{id" not in line or "id: docs" in line
            )
            (folder / "knowledge.yaml").write_text(settings, encoding="utf-8")
            write_files(folder, LANGUAGES)
            knowledge("index")
            return
        (folder / "knowledge.yaml").write_text(SETTINGS, encoding="utf-8")
        write_files(folder, FILES)
        knowledge("index")
        write_files(folder, CHANGES)
        knowledge("refresh")
        knowledge("search", "who rotates the session signing key")
        for arguments in (("search", "failed payment", "--type", "code"), ("token", "create", "page")):
            knowledge(*arguments, needed=False)  # the first program had no tokens


def main() -> None:
    """Parse the arguments and write the archive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--program", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--languages", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_store(Path(folder), arguments.program.resolve(), languages=arguments.languages)
        arguments.archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(arguments.archive, "w:xz") as archive:
            for name in ("knowledge.yaml", "files", "store"):
                archive.add(Path(folder) / name, name, filter=_leave_out_the_machine)


def _leave_out_the_machine(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name.startswith(("store/locks", "store/cache")):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()

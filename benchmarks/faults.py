"""Every fault at every commit of a refresh, beside a reader and a second writer, also before maintenance.

    python -m benchmarks.faults [--only FAULT ...] [--bucket] [--every N] [--maintained] [--json]
    python -m benchmarks.faults --damaged [--every N] [--json]

`knowledge_pipeline_tests/stages/test_faults.py` tries a sample of the same. With `--bucket` the tables are in
an S3 that runs here, where a stopped writer is stopped for longer than its lease. Prints the table of
docs/reliability.md: how many runs, and what they left that is wrong; what each such run left, on stderr.

With `--damaged` no refresh is disturbed: files of the store are zeroed, cut or removed, one at a time, but
not those of logs, tokens and the list of releases, which a backup mends. Then a question is right, degraded
or refused with a sentence, never wrong; `verify` finds the damage; and after `maintain --repair` and a
refresh the tables and the answer are those of a sound store.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.figures import describe_machine, print_rows
from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket, S3Server
from knowledge_pipeline_tests.fakes.bucket.store import store_in
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.stages.faults import (
    DAMAGED_FILES,
    DAMAGES,
    FAULTS,
    Aftermath,
    DamageAftermath,
    Matrix,
    change_after_release,
)


def main() -> None:
    """Run, print."""
    options = _read_arguments()
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        embedding = embedding_by(stack.enter_context(OpenAIServer()))
        bucket = S3Bucket(stack.enter_context(S3Server())) if options.bucket else None

        def open_bucket(root: Path) -> ObjectStore:
            assert bucket
            return store_in(bucket, root / "here", f"runs/{abs(hash(root))}")

        matrix = Matrix(change_after_release(Project(folder, embedding), folder), folder, open_bucket)
        stack.callback(matrix.close)
        for kind, how in product(DAMAGED_FILES, DAMAGES) if options.damaged else ():
            rows.append(_damage_all(matrix, kind, how, options.every))
        for fault in () if options.damaged else options.only or FAULTS:
            for maintained in (True,) if options.maintained else (False, True):
                name = f"{fault}, then maintenance" if maintained else fault
                rows.append(_try_all(matrix, name, fault, options, maintained=maintained))
    if options.json:
        print(json.dumps({"machine": describe_machine(), "commits": matrix.commits, "rows": rows}, indent=2))
        return
    print_rows(f"{matrix.commits} commits, {describe_machine()}", rows, width=150)


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=tuple(FAULTS), help="some of the faults")
    parser.add_argument("--bucket", action="store_true", help="tables in a bucket instead of a folder")
    parser.add_argument("--every", type=int, default=1, help="one of so many commits")
    parser.add_argument("--maintained", action="store_true", help="only those before maintenance")
    parser.add_argument("--damaged", action="store_true", help="damaged files instead of faults")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _try_all(
    matrix: Matrix, name: str, fault: str, options: argparse.Namespace, *, maintained: bool
) -> dict[str, Any]:
    """The row of one fault."""
    left: list[Aftermath] = []
    for commit in range(1, matrix.commits + 1, options.every):
        each = matrix.run(fault, commit, maintained=maintained, bucket=options.bucket)
        left.append(each)
        if each.wrong_answers or each.unreadable_versions or each.wrong_tables or not each.reached:
            print(f"{name} at commit {commit}: {json.dumps(asdict(each), indent=2)}", file=sys.stderr)
    print(f"{name}: {len(left)} runs", file=sys.stderr)
    return {
        "fault": name,
        "runs": sum(each.reached for each in left),
        "unreadable versions": sum(len(each.unreadable_versions) for each in left),
        "tables with wrong rows": sum(len(each.wrong_tables) for each in left),
        "answers": sum(each.answers for each in left),
        "wrong answers": sum(len(each.wrong_answers) for each in left),
    }


def _damage_all(matrix: Matrix, kind: str, how: str, every: int) -> dict[str, Any]:
    """The row of one kind of file, and of one way to damage it."""
    left: list[DamageAftermath] = []
    for path in matrix.list_files(DAMAGED_FILES[kind])[::every]:
        each = matrix.damage(path, how)
        left.append(each)
        if each.asked == "wrong" or each.wrong or each.last != "right":
            print(f"{path} {how}: {json.dumps(asdict(each), indent=2)}", file=sys.stderr)
    print(f"{kind} {how}: {len(left)} runs", file=sys.stderr)
    asked = Counter(each.asked for each in left)
    return {
        "damaged": f"{kind}, {how}",
        "runs": len(left),
        **{name: asked[name] for name in ("right", "degraded", "refused", "wrong")},
        "found": sum(each.is_found for each in left),
        "not mended": sum(bool(each.wrong) or each.last != "right" for each in left),
    }


if __name__ == "__main__":
    main()

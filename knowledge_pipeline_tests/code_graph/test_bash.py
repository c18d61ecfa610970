"""Functions of shell scripts are found in the script, and in those that it sources."""

from __future__ import annotations

import pytest

from knowledge_pipeline_tests.code_graph.files import Kept, edges_of, targets

SCRIPTS = {
    "bin/run.sh": """#!/usr/bin/env bash
source "$(dirname "$0")/../lib/log.sh"
. ./setup.sh
TARGET=build
main() {
    local level=1
    log "$TARGET" "$level" "$(stamp)"
    prepare && helper | psql
}
helper() { echo "$LOG_FILE"; }
main "$@"
""",
    "bin/setup.sh": "prepare() { stamp; }\n",
    "lib/log.sh": 'LOG_FILE=out.log\nlog() { echo "$1" >> "$LOG_FILE"; }\nstamp() { date; }\n',
}


def test_functions_are_found_in_what_is_sourced() -> None:
    assert targets(SCRIPTS, "calls", "bin/run.sh:main") == {
        "lib/log.sh:log", "lib/log.sh:stamp", "bin/setup.sh:prepare", "bin/run.sh:helper", "psql",
    }  # fmt: skip
    assert targets(SCRIPTS, "calls", "bin/run.sh:") == {"bin/run.sh:main"}
    assert targets(SCRIPTS, "calls", "bin/setup.sh:prepare") == {"stamp"}


def test_variables_are_referred_to_unless_they_are_local() -> None:
    assert targets(SCRIPTS, "references", "bin/run.sh:main") == {"bin/run.sh:TARGET"}
    assert targets(SCRIPTS, "references", "bin/run.sh:helper") == {"lib/log.sh:LOG_FILE"}


def test_a_sourced_script_is_imported() -> None:
    assert targets(SCRIPTS, "imports", "bin/run.sh:") == {"lib/log.sh:", "bin/setup.sh:"}


def test_a_command_without_a_file_imports_none() -> None:
    assert targets({"run.sh": 'source\n. "$(find_it)"\n'}, "imports", "run.sh:") == set()


def test_an_edit_gives_the_edges_of_a_full_run() -> None:
    kept = Kept()
    kept.update(SCRIPTS)
    after = SCRIPTS | {"lib/log.sh": "stamp() { date; }\n"}
    kept.update(after)
    assert kept.edges == edges_of(after)


@pytest.mark.parametrize(
    "lines",
    [
        'DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\nsource "$DIR/lib/u.sh"',
        'DIR=$(cd -- "$(dirname -- "$0")" >/dev/null 2>&1 && pwd -P)\n. "${DIR}"/lib/u.sh',
        'ROOT="$(cd "$(dirname "$0")/.." && pwd)"\nBIN=$ROOT/bin\nsource "${BIN}/lib/u.sh"',
        'ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)\n. "$ROOT/bin/lib/u.sh"',
        'ROOT="$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)"\n. "$ROOT/bin/lib/u.sh"',
        'readonly HERE="${BASH_SOURCE%/*}"\nsource "$HERE/lib/u.sh"',
        '. "${0%/*}/lib/u.sh"',
        '. "${BASH_SOURCE[0]%/*}/lib/u.sh"',
        'source "$(dirname "$(readlink -f "$0")")/lib/u.sh"',
        'source "$(cd "$(dirname "$0")" && pwd)/lib/u.sh"',
    ],
)
def test_a_path_from_the_folder_of_the_script_itself_is_followed(lines: str) -> None:
    texts = {"bin/run.sh": f"{lines}\nuse\n", "bin/lib/u.sh": "use() { :; }\n", "lib/u.sh": "use() { :; }\n"}
    assert targets(texts, "imports", "bin/run.sh:") == {"bin/lib/u.sh:"}
    assert targets(texts, "calls", "bin/run.sh:") == {"bin/lib/u.sh:use"}

"""Words of all languages are found, in a store that the pipeline wrote."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.context.select import WordWeights
from knowledge_pipeline.serve.page.markdown_html import TermMatcher
from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.connectors.files.test_extraction import pdf
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.write_store import LANGUAGES

QUESTIONS = [
    ("数据库备份", "zh"),
    ("对象存储", "zh"),
    ("库", "zh"),
    ("数据库 备份", "zh"),
    ("バックアップ", "ja"),
    ("毎晩実行", "ja"),
    ("猫", "ja"),
    ("데이터베이스에서", "ko"),
    ("학교", "ko"),
    ("책", "ko"),
    ("ฐานข้อมูล", "th"),
    ("ผู้ดูแล", "th"),
    ("सुरक्षा", "hi"),
    ("Prüfung", "nfd"),
    (unicodedata.normalize("NFD", "Prüfung"), "nfd"),
    (unicodedata.normalize("NFD", "Löschung"), "nfc"),
    ("architectural", "soft"),
    ("architec\u00adtural drawing", "soft"),
    ("confirmed reflection", "ligature"),
    ("o\ufb03ce", "ligature"),
    ("exploration", "lines"),
]

MORE_QUESTIONS = [
    ("Schlüssel", "de"),
    ("SCHLÜSSEL", "de"),
    (unicodedata.normalize("NFD", "schlüssel"), "de"),
    ("Länge", "de"),
    ("Straße", "de"),
    ("strasse", "de"),
    ("réglage", "fr"),
    ("reglage", "fr"),
    ("RÉGLAGES", "fr"),
    ("l'œuvre", "fr"),
    ("français", "fr"),
    ("francais", "fr"),
    ("設定ファイル", "ja2"),
    ("ファイル", "ja2"),
    ("ﾌｧｲﾙ", "ja2"),
    ("鍵", "ja2"),
]
MORE_TEXTS = {
    "docs/de.md": "Ein Schlüssel fester Länge, in der Straße.\n",
    "docs/fr.md": "Le réglage du texte français suit l'œuvre.\n",
    "docs/ja2.md": "設定ファイルの鍵は環境変数から読み込まれます。\n",
}


@pytest.fixture(scope="module")
def documents(template: Project) -> Project:
    """All texts, with a line of a PDF, a text file, and code."""
    for name, text in (*LANGUAGES.items(), *MORE_TEXTS.items()):
        path = template.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    files, code = template.root / "files", template.root / "code"
    files.mkdir()
    code.mkdir()
    broken = pdf("The gover-) Tj 0 -14 Td (nance of harbours")
    (files / "law.pdf").write_bytes(broken)
    (files / "note.txt").write_text("An inter-\nmittent fault.\n")
    (code / "sums.py").write_text('total = outer-\\\n    inner\nname = "left-\nright"\n')
    template.declare("docs", "markdown", template.root / "docs")
    template.declare("files", "files", files)
    template.declare("code", "code", code)
    assert template.refresh().failures == {}
    return template


@pytest.fixture(scope="module")
def knowledge(documents: Project) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(documents.settings) as opened:
        yield opened


def find(knowledge: KnowledgeBase, question: str) -> list[str]:
    return [Path(result.metadata["path"]).stem for result in knowledge.search(question, mode="words").results]


@pytest.mark.parametrize(("question", "name"), [*QUESTIONS, *MORE_QUESTIONS])
def test_a_word_is_found_whatever_its_language_and_form(
    knowledge: KnowledgeBase, question: str, name: str
) -> None:
    assert find(knowledge, question)[:1] == [name]


@pytest.mark.parametrize(("question", "name"), [("governance", "law"), ("intermittent", "note")])
def test_a_word_that_a_line_of_a_file_breaks_is_found(
    knowledge: KnowledgeBase, question: str, name: str
) -> None:
    assert find(knowledge, question) == [name]


def test_lines_of_code_are_not_joined(knowledge: KnowledgeBase) -> None:
    assert find(knowledge, "outer") == ["sums"]
    assert find(knowledge, "leftright") == []


def test_results_show_the_text_as_it_is_and_mark_the_words_in_it(knowledge: KnowledgeBase) -> None:
    for question, marked in (("数据库备份", "数据库备份"), ("architectural", "archi\u00adtec\u00adtural")):
        (result,) = knowledge.search(question, mode="words").results
        assert result.content in (*LANGUAGES.values(), *(text.strip() for text in LANGUAGES.values()))
        ranges = TermMatcher(question).find_ranges(result.content)
        assert result.content[slice(*ranges[0])] == marked


def test_what_a_model_does_not_read_is_ranked_by_words(template: Project, tmp_path: Path) -> None:
    """By the model of English that the package carries."""
    sentences = [
        "订单支付失败后重试",
        "日志保存三十天",
        "密钥每周轮换一次",
        "用户登录需要验证码",
        "服务器每晚重启",
    ]
    for at in range(40):
        others = " ".join(sentences[(at + step) % 5] for step in range(3))
        (tmp_path / f"zh{at}.md").write_text(f"{others} {at}\n", encoding="utf-8")
        (tmp_path / f"en{at}.md").write_text(f"The worker {at} restarts the database backup.\n")
    (tmp_path / "backup.md").write_text("数据库备份策略每周检查\n", encoding="utf-8")
    project = Project(tmp_path / "project", EmbeddingSettings(model="static-v1"))
    project.declare("docs", "markdown", tmp_path)
    assert project.refresh().failures == {}
    with KnowledgeBase.open(project.settings) as knowledge:
        found = knowledge.search("数据库备份")
        assert (found.results[0].metadata["path"], found.degraded) == ("backup.md", ())
        assert not any(result.metadata["path"].startswith("en") for result in found.results)
        assert knowledge.search("몽골").results, "where no word matches, the nearest are shown as before"
        mixed = [result.metadata["path"] for result in knowledge.search("database backup 备份").results]
        assert all(path == "backup.md" or path.startswith("en") for path in mixed)
        assert len(mixed) > 1


@pytest.mark.parametrize("question", ["\u00ad", "\u0301", "。", "\u200d"])
def test_a_question_without_a_letter_finds_no_word(knowledge: KnowledgeBase, question: str) -> None:
    assert find(knowledge, question) == []


def test_lines_gain_by_words_inside_their_sentences() -> None:
    lines = ["数据库备份策略每周检查", "日志保存三十天"]
    backup, log = (
        WordWeights("备份策略", lines).estimate_gains(lines)[0],
        WordWeights("保存日志", lines).estimate_gains(["x", "", "", "", lines[1]]),
    )
    assert min(backup, log[4]) > log[0] + 0.5


MEANINGS = {
    "How long are backups kept": (
        "Wie lange werden Sicherungen aufbewahrt",
        "Combien de temps les sauvegardes sont-elles conservées",
        "バックアップはどのくらい保存されますか",
    ),
    "Who may rotate the signing key": (
        "Wer darf den Signaturschlüssel erneuern",
        "Qui peut renouveler la clé de signature",
        "署名鍵を更新できるのは誰ですか",
    ),
}
TRANSLATIONS = {other: english for english, others in MEANINGS.items() for other in others} | {
    "Sicherungen werden dreißig Tage aufbewahrt.": "Backups are kept for thirty days.",
    "L'équipe de sécurité renouvelle la clé de signature.": "The security team rotates the signing key.",
    "夜間ジョブは二時に再起動します。": "The nightly job restarts at two.",
}
ENGLISH = {
    "backups.md": "Backups are kept for thirty days.\n",
    "keys.md": "The security team may rotate the signing key.\n",
}
OTHERS = [f"The service {name} writes its log to the bucket {name}.\n" for name in ("a", "b", "c", "d", "e")]


def write_documents(folder: Path, texts: Mapping[str, str]) -> Path:
    folder.mkdir()
    for name, text in {**texts, **{f"other{at}.md": text for at, text in enumerate(OTHERS)}}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def several_languages() -> Iterator[EmbeddingSettings]:
    """An endpoint whose model gives a sentence and its translations one vector."""
    with OpenAIServer(dimensions=256, translations=TRANSLATIONS) as server:
        yield embedding_by(server)


@pytest.mark.parametrize(("meaning", "name"), list(zip(MEANINGS, ENGLISH, strict=True)))
def test_by_one_setting_a_question_in_another_language_finds_the_english_document(
    several_languages: EmbeddingSettings, tmp_path: Path, meaning: str, name: str
) -> None:
    project = Project(tmp_path / "project", several_languages)
    project.declare("docs", "markdown", write_documents(tmp_path / "docs", ENGLISH))
    assert project.refresh().failures == {}
    with KnowledgeBase.open(project.settings) as knowledge:
        for question in (meaning, *MEANINGS[meaning]):
            found = knowledge.search(f"{question}?")
            assert (found.results[0].metadata["path"], found.notes) == (name, ()), question


def test_by_the_same_setting_an_english_question_finds_a_document_in_another_language(
    several_languages: EmbeddingSettings, tmp_path: Path
) -> None:
    texts = dict(zip(("de.md", "fr.md", "ja.md"), list(TRANSLATIONS)[-3:], strict=True))
    project = Project(tmp_path / "project", several_languages)
    project.declare("docs", "markdown", write_documents(tmp_path / "docs", texts))
    assert project.refresh().failures == {}
    with KnowledgeBase.open(project.settings) as knowledge:
        for question, name in (
            ("How long are backups kept for?", "de.md"),
            ("Who rotates the signing key?", "fr.md"),
            ("When does the nightly job restart?", "ja.md"),
        ):
            assert knowledge.search(question).results[0].metadata["path"] == name

"""The language of a question is told where it is sure, and of nothing that a programmer writes in English."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline.query.question_language import detect_other_language

QUESTIONS = {
    "German": [
        "Wie lange werden Antworten zwischengespeichert?",
        "Wie funktioniert Reranking?",
        "Wo werden Geheimnisse geschwärzt",
        "Welche Authentifizierungsmethoden unterstützt Confluence",
        "wie kann ich zu einem früheren Release zurückkehren",
        "Fehler beim Öffnen der Datenbank",
        "Wie setze ich `embedding.model` in knowledge.yaml?",
        "wo ist RefreshContext definiert",
    ],
    "French": [
        "Comment changer le mot de passe",
        "Comment configurer les webhooks ?",
        "Pourquoi la recherche est-elle lente ?",
        "Où sont stockés les vecteurs ?",
        "quelle est la limite de débit",
        "Comment écrire des questions de référence pour l'évaluation ?",
    ],
    "Spanish": [
        "¿Cómo funciona el reranking?",
        "Dónde se guardan los vectores",
        "como cambiar la clave de acceso",
    ],
    "Italian": ["Come posso aggiungere un repository", "Quali lingue sono supportate"],
    "Portuguese": ["Onde são guardados os vetores?", "Como posso adicionar um repositório git"],
    "Dutch": ["Hoe werkt reranking?", "Wat is de limiet van het aantal verzoeken"],
    "Polish": ["Gdzie są przechowywane wektory"],
    "Swedish": ["Varför är sökningen långsam?"],
    "Japanese": [
        "ベクトルはどこに保存されますか",
        "RefreshContextはどこで定義されていますか？",
        "キャッシュの有効期限",
        "データベース",
    ],
    "Chinese": ["数据库备份", "如何配置 webhook"],
    "Korean": ["벡터는 어디에 저장됩니까?"],
    "Cyrillic script": ["Где хранятся векторы?", "как работает rerank"],
    "Greek": ["Πού αποθηκεύονται τα διανύσματα;"],
    "Arabic script": ["أين يتم تخزين المتجهات؟"],
    "Hebrew": ["איפה נשמרים הוקטורים?"],
    "Thai": ["เวกเตอร์ถูกเก็บไว้ที่ไหน"],
    "Devanagari script": ["वेक्टर कहाँ संग्रहीत हैं?"],
}
NOT_SURE = [
    "how do I go back to an earlier release",
    "die when the parent process was killed",
    "comment syntax in yaml",
    "where is the DER certificate parsed",
    "convert ist to utc",
    "von Neumann architecture",
    "de la Cruz et al",
    "naïve résumé café",
    "Les Misérables",
    "Cirque du Soleil in El Dorado",
    "sans serif font for the page",
    "jest test of a var",
    'why is "Die Datei wurde nicht gefunden" logged',
    "what does `der Schlüssel ist nicht gültig` mean",
    "what does は mean in the parser tests",
    "α-β pruning of the λ calculus in µs",
    "git checkout -b fix/über-alles und.nicht",
    "KeyError: 'für'",
    "NullPointerException at com.acme.pay.Der.das(Der.java:12)",
    "SELECT e, o, a FROM du WHERE la = 1",
    "ENOENT: no such file or directory, open '/etc/de/la.conf'",
    "for x in y do z en es un",
    "Müller",
    "RefreshContext",
    "",
    "?!",
]


@pytest.mark.parametrize(
    ("question", "language"), [(question, name) for name, texts in QUESTIONS.items() for question in texts]
)
def test_a_question_in_another_language_is_told(question: str, language: str) -> None:
    assert detect_other_language(question) == language


@pytest.mark.parametrize("text", NOT_SURE)
def test_names_code_and_errors_are_of_no_language(text: str) -> None:
    assert detect_other_language(text) is None


def test_no_line_of_our_own_documentation_and_code_is_taken_for_another_language() -> None:
    root = Path(__file__).parents[3]
    files = [root / "CHANGELOG.md", *root.glob("docs/*.md"), *root.glob("knowledge_pipeline/[qs]*/*.py")]
    files.remove(root / "knowledge_pipeline/query/question_language.py")
    lines = {line for file in files for line in file.read_text(encoding="utf-8").splitlines()}
    assert len(lines) > 10_000
    assert {line: language for line in lines if (language := detect_other_language(line))} == {}

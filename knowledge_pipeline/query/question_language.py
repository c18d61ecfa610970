"""The language of a question, where it surely is not English: told by its script or its function words.

Names in code, paths and error messages are of no language; they are looked at for their script alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from knowledge_pipeline.query.plan import STOPWORDS

_MAX_CHARS = 1_000  # of a text, in which a person has said what they want

_SCRIPTS: Mapping[str, str] = {
    "Japanese": r"\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff",
    "Korean": r"\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "Chinese": r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
    "Thai": r"\u0e01-\u0e3a\u0e40-\u0e4e",
    "Arabic script": r"\u0620-\u064a\u0671-\u06d3",
    "Hebrew": r"\u05d0-\u05ea",
    "Greek": r"\u0386-\u03ce",
    "Cyrillic script": r"\u0400-\u052f",
    "Devanagari script": r"\u0904-\u0939",
}
"""Name -> its letters, in a character class. Japanese has Chinese characters as well, and comes first."""
_LETTERS_OF_SCRIPT = {name: re.compile(f"[{letters}]") for name, letters in _SCRIPTS.items()}
_EAST_ASIAN = ("Japanese", "Korean", "Chinese")
_LETTERS_OF_WORD = 3  # that a character of East Asia stands for, about
_MIN_LETTERS = 3  # of a script, so weighed


class _FunctionWords(NamedTuple):
    asking: frozenset[str]  # that begin questions
    sure: frozenset[str]  # that English texts do not have
    other: frozenset[str]  # that names, abbreviations and other languages have as well
    letters: re.Pattern[str]  # that English lacks


def _list_words(asking: str, sure: str, other: str, letters: str) -> _FunctionWords:
    return _FunctionWords(
        frozenset(asking.split()),
        frozenset(sure.split()),
        frozenset(other.split()),
        re.compile(f"[{letters}]"),
    )


_FUNCTION_WORDS: Mapping[str, _FunctionWords] = {
    "German": _list_words(
        "wann warum welche welchem welchen welcher welches wer weshalb wie wieso",
        """aber auch auf beim bitte brauche damit dass dieser dieses durch eine einem einen einer eines für
        geht gibt haben ich ihr ist kann kein keine keinen können könnte machen meine muss müssen nicht noch
        oder ohne sich sind soll sollen sollte und unter vom wenn werden wir wird wurde wurden zum zur
        zwischen über""",
        "aus bei das dem den der des diese ein hat im mit nach nur ob sein von vor wo zu",
        "äöüß",
    ),
    "French": _list_words(
        "combien où pourquoi quand quel quelle quelles quels",
        """ajouter aucun avec avoir cette chaque configurer créer dans depuis elles est-ce être faire faut
        fonctionne il les leur leurs lorsque mettre notre peut peux puis sont supprimer trouver une utiliser
        veux votre vos vous je ils après""",
        """au aux ce ces comment de des du elle en est la le mes mon ne nos nous ou par pas qu que qui sa ses
        son sous sur un""",
        "àâçèéêëîïôùûœ",
    ),
    "Spanish": _list_words(
        "cuál cuáles cuándo cuánto cuántos cómo dónde por-qué quién qué",
        """cada configurar desde están estos está funciona hacer hasta las los muy más nuestra nuestro pero
        porque puede puedo según tiene también una usar""",
        "como con cual cuando de del donde el en entre es esta este la lo para por que se ser sin sobre su",
        "áéíóúñ¿¡",
    ),
    "Italian": _list_words(
        "perché quale quali quando quanti quanto",
        """anche che degli dei della delle dello essere funziona gli nel nella nelle possiamo posso può questa
        questi questo sono sulla viene vengono è""",
        "ai alla alle come con cosa da dal del di dove il la le ogni più se si su tra un una uno",
        "àèéìòù",
    ),
    "Portuguese": _list_words(
        "onde quais qual quando quem",
        """até depois essa esse está estão fazer funciona isso mais não nossa nosso pela pelas pelo pelos pode
        podem posso são seu sua também tem uma usar você é""",
        "a ao com como da das de do dos em esta este na nas no nos num o os ou para por que se um",
        "áâãçéêíóôõú",
    ),
    "Dutch": _list_words(
        "hoe waar waarom wanneer welk welke",
        """aan als bij deze een gebruik gebruiken geen hebben heeft het ik kunnen maar mijn moeten naar niet
        onze ook tussen uit voor wordt worden zijn zonder""",
        "dan dat de die dit en er is je kan met moet na om op te tot van wat wie",
        "ëï\u0133",
    ),
    "Polish": _list_words(
        "czy dlaczego gdzie jak jaka jakie jaki kiedy",
        "dla która które który mogę można nie oraz przez się są żeby",
        "co do jest lub na od po za ze",
        "ąćęłńśźż",
    ),
    "Swedish": _list_words(
        "hur varför vilka vilken vilket",
        "där eller från för här inte jag mellan måste någon när och också på som vad är",
        "att av den det efter en ett har kan med om ska vem",
        "åäö",
    ),
}
"""By language, in the order in which one is named where two fit alike."""

_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|[“„][^“”„]*[“”]|«[^«»]*»")
_CHUNK = re.compile(r"[^\s,;!?()\[\]{}…¿¡]+")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*[.:]?")  # not part of a name in code, a path or an address
_PARTS = re.compile(r"[-'’]")
_LATIN_LETTER = re.compile(r"[A-Za-z\u00c0-\u024f]")


def detect_other_language(text: str) -> str | None:
    """Such as "German", "Japanese" or "Cyrillic script"; None of English, and of what is not sure."""
    text = text[:_MAX_CHARS]
    words = _list_plain_words(text)
    return (None if text.isascii() else _detect_script(text, words)) or _detect_by_words(text, words)


def _list_plain_words(text: str) -> list[str]:
    """The words outside of quotation marks; those that look like names in code, and abbreviations, aside."""
    chunks: list[str] = _CHUNK.findall(_QUOTED.sub(" ", text))
    words = (chunk.rstrip(".:") for chunk in chunks if _WORD.fullmatch(chunk))
    return [word for word in words if word[1:].islower() or len(word) == 1]


def _detect_script(text: str, words: Sequence[str]) -> str | None:
    """That of at least half of the letters, names in code aside."""
    latin = sum(len(_LATIN_LETTER.findall(word)) for word in words)
    weights = {
        name: len(letters.findall(text)) * (_LETTERS_OF_WORD if name in _EAST_ASIAN else 1)
        for name, letters in _LETTERS_OF_SCRIPT.items()
    }
    total = sum(weights.values())
    if total < max(_MIN_LETTERS, latin):
        return None
    if weights["Japanese"]:
        return "Japanese"
    return max(weights, key=weights.__getitem__)


def _detect_by_words(text: str, words: Sequence[str]) -> str | None:
    """That of the most function words, where they are many enough and English ones are fewer."""
    if not words:
        return None
    parts = [part for word in words[1:] if word[0].islower() for part in (word, *_split_word(word))]
    distinct = {words[0].lower(), *_split_word(words[0].lower()), *parts}
    best, best_weight = None, 0
    for language, (asking, sure, other, letters) in _FUNCTION_WORDS.items():
        hits_sure, hits_other = distinct & (asking | sure), distinct & other
        hits = len(hits_sure) + len(hits_other)
        english = len((distinct & STOPWORDS) - other)
        weight = hits + (words[0].lower() in asking) + any(map(letters.search, distinct - hits_sure))
        is_sure = bool(hits_sure) and weight >= 2 and 4 * weight >= len(words)
        is_sure |= len(hits_other) >= 3 and not english and 5 * weight >= 2 * len(words)
        if is_sure and hits > english and weight > best_weight:
            best, best_weight = language, weight
    return best


def _split_word(word: str) -> list[str]:
    """The parts of a word at its hyphens and apostrophes, where it has some."""
    parts = _PARTS.split(word)
    return parts if len(parts) > 1 else []

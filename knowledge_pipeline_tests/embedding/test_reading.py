"""What a model reads of a text."""

import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.reading import is_mostly_kept, remove_unread


def reads(settings: EmbeddingSettings, text: str) -> bool:
    return remove_unread(settings, text) == text


ENGLISH = EmbeddingSettings(model="static-v1")


@pytest.mark.parametrize(
    "text",
    [
        "数据库备份策略",
        "データベースのバックアップ",
        "데이터베이스를 백업",
        "การสำรองฐานข้อมูล",
        "Резервное копирование",
        "النسخ الاحتياطي",
    ],
)
def test_a_model_for_english_does_not_read_other_scripts(text: str) -> None:
    for model in ("static-v1", "all-MiniLM-L6-v2:outline+static-v1"):
        assert not is_mostly_kept(remove_unread(EmbeddingSettings(model=model), text), text)


@pytest.mark.parametrize("text", ["database", "Prüfung der Schlüssel", "được thực hiện", "— 12 %", ""])
def test_latin_letters_are_read(text: str) -> None:
    assert reads(ENGLISH, text)


def test_of_two_scripts_the_one_that_is_read_is_kept() -> None:
    kept = remove_unread(ENGLISH, "Redis 数据库 backup")
    assert kept == "Redis     backup"
    assert is_mostly_kept(kept, "Redis 数据库 backup")


def test_an_endpoint_is_trusted() -> None:
    endpoint = EmbeddingSettings(
        provider="openai", model="any", base_url="http://localhost:1/v1", api_key="k"
    )
    assert reads(endpoint, "数据库备份策略")


def test_a_model_whose_vocabulary_has_the_words_reads_them(tmp_path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = ["[UNK]", "数", "据", "резерв", "##ное", "데이", "##터"]
    tokenizer = Tokenizer(models.WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "modules.json").write_text("[]")
    own = EmbeddingSettings(model=str(tmp_path))
    assert all(reads(own, text) for text in ("数据", "резервное", "데이터"))
    assert not reads(own, "备份")

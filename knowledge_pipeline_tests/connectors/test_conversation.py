"""What a conversation says, and where each part of it begins."""

from __future__ import annotations

from knowledge_pipeline.connectors.conversations import Turn, format_conversation


def test_a_title_without_a_description_is_a_segment_of_its_own() -> None:
    text, segments = format_conversation(
        "Refunds fail", [Turn("description", " "), Turn("comment", "Since May.")]
    )
    assert text == "Refunds fail\n\nComment:\nSince May."
    assert segments == [{"start_char": 0, "kind": "title"}, {"start_char": 14, "kind": "comment"}]


def test_a_description_shares_the_segment_of_its_title() -> None:
    text, segments = format_conversation("Refunds fail", [Turn("description", "Since May.")])
    assert text == "Refunds fail\n\nSince May."
    assert segments == [{"start_char": 0, "kind": "description"}]

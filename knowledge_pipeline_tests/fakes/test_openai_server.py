import http.client
import json

from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer, word_vector
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model


def ask(server, texts, *, key="test-key", path="/v1/embeddings", **fields):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = json.dumps({"model": "fake", "input": texts} | fields)
    connection.request("POST", path, body, {"Authorization": f"Bearer {key}"})
    try:
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def cosine(first, second):
    return sum(a * b for a, b in zip(word_vector(first, 32), word_vector(second, 32), strict=True))


def test_it_answers_like_openai_and_remembers_the_request():
    with OpenAIServer() as server:
        status, _, body = ask(server, ["one two", "three"])
        answer = json.loads(body)
    assert status == 200
    assert [entry["index"] for entry in answer["data"]] == [0, 1]
    assert answer["data"][1]["embedding"] == word_vector("three", 32)
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert [(request.texts, request.status) for request in server.requests] == [(("one two", "three"), 200)]


def test_it_refuses_a_wrong_key_an_empty_text_and_another_path():
    with OpenAIServer() as server:
        assert ask(server, ["one"], key="other")[0] == 401
        assert ask(server, [""])[0] == 400
        assert ask(server, ["one"], path="/embeddings")[0] == 404
        assert server.texts == []


def test_faults_are_used_up_in_order():
    with OpenAIServer() as server:
        server.fail_next(Fault(429, retry_after="3", code="slow_down"), Fault(body=b"oops"))
        status, headers, body = ask(server, ["one"])
        assert (status, headers["Retry-After"], json.loads(body)["error"]["code"]) == (429, "3", "slow_down")
        assert ask(server, ["one"])[2] == b"oops"
        assert json.loads(ask(server, ["one"])[2])["data"]


def test_a_cut_off_body_is_shorter_than_promised():
    with OpenAIServer() as server:
        server.fail_next(Fault(cut_off=True))
        try:
            ask(server, ["one"])
        except http.client.IncompleteRead as cut:
            assert cut.expected and cut.partial
        else:
            raise AssertionError("the body came whole")


def test_shuffled_entries_keep_their_index():
    with OpenAIServer(shuffled=True) as server:
        answer = json.loads(ask(server, ["one", "two"])[2])
    assert [entry["index"] for entry in answer["data"]] == [1, 0]
    assert answer["data"][0]["embedding"] == word_vector("two", 32)


def test_it_comes_back_at_the_same_url():
    with OpenAIServer() as server:
        ask(server, ["one"])
    with OpenAIServer(port=server.port) as again:
        assert again.url == server.url
        assert ask(again, ["one"])[0] == 200


def test_texts_that_share_words_are_nearer_than_others():
    assert cosine("parse the config file", "the config parser reads a file") > 0.4
    assert cosine("parseConfigFile", "parse_config_file") > 0.999
    assert abs(cosine("parse the config file", "cats sleep often")) < 0.4
    assert cosine("", "") > 0.999


def test_the_tiny_model_is_written_with_the_same_bytes_each_time(tmp_path):
    first, second = build_tiny_model(tmp_path / "a"), build_tiny_model(tmp_path / "b")
    assert sorted(path.name for path in first.iterdir()) == [
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "tokenizer.json",
    ]
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()

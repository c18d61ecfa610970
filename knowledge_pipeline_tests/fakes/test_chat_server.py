import http.client
import json

from knowledge_pipeline_tests.fakes.chat_server import ChatServer
from knowledge_pipeline_tests.fakes.openai_server import Fault


def ask(server, *contents, key="test-key", path="/v1/chat/completions", **fields):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    messages = [{"role": "user", "content": content} for content in contents]
    body = json.dumps({"model": "fake", "messages": messages} | fields)
    connection.request("POST", path, body, {"Authorization": f"Bearer {key}"})
    try:
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def test_it_says_what_is_scripted_then_the_same_and_counts_words():
    with ChatServer(otherwise="that is all") as server:
        server.say("one two", lambda messages: messages[-1]["content"].upper())
        first = ask(server, "what is this")[1]
        assert ask(server, "hello")[1]["choices"][0]["message"]["content"] == "HELLO"
        assert ask(server, "hello")[1]["choices"][0]["message"]["content"] == "that is all"
    assert first["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"}
    ]
    assert first["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert server.prompts[0] == "what is this"


def test_it_refuses_a_wrong_key_another_path_no_messages_and_what_it_does_not_know():
    with ChatServer(refused=("max_tokens",)) as server:
        assert ask(server, "hello", key="other")[0] == 401
        assert ask(server, "hello", path="/v1/completions")[0] == 404
        assert ask(server)[0] == 400
        status, answer = ask(server, "hello", max_tokens=9)
        assert status == 400 and "max_completion_tokens" in answer["error"]["message"]
        assert ask(server, "hello", max_completion_tokens=9)[0] == 200


def test_faults_come_before_what_is_scripted_and_use_up_nothing_of_it():
    with ChatServer(usage=False) as server:
        server.fail_next(Fault(503, code="overloaded"))
        server.say("later")
        assert ask(server, "hello") == (
            503,
            {"error": {"message": "on purpose", "type": "", "code": "overloaded"}},
        )
        answer = ask(server, "hello")[1]
    assert answer["choices"][0]["message"]["content"] == "later" and "usage" not in answer

from knowledge_pipeline.endpoints import RateLimiter


def test_a_rate_of_60_a_minute_lets_one_start_a_second_even_after_a_pause():
    pace = RateLimiter(60)
    waits = [pace.reserve() for _ in range(4)]
    assert [round(wait) for wait in waits] == [0, 1, 2, 3]


def test_a_large_request_delays_the_next_one_by_its_size():
    pace = RateLimiter(6000)
    assert pace.reserve(1000) == 0
    assert 9.5 < pace.reserve(1) <= 10


def test_without_a_rate_nobody_waits():
    pace = RateLimiter(None)
    assert [pace.reserve(10**9) for _ in range(3)] == [0, 0, 0]


def test_a_hold_delays_everybody_and_a_shorter_one_does_not_lift_it():
    pace = RateLimiter(None)
    pace.pause(5)
    pace.pause(1)
    assert 4.5 < pace.reserve() <= 5


def test_who_asks_how_long_it_would_take_takes_no_place():
    pace = RateLimiter(60)
    pace.reserve()
    assert [round(pace.estimate_wait_s()) for _ in range(5)] == [1] * 5
    assert round(pace.reserve()) == 1
    assert RateLimiter(None).estimate_wait_s() == 0

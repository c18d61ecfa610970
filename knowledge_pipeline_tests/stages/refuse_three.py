"""Work for processes of a pool, which import this file alone: to import a file of tests takes seconds."""

from knowledge_pipeline.errors import NotFound


def refuse_three(number: int) -> int:
    """Ten times the number.

    Raises:
        NotFound: it is 3.
    """
    if number == 3:
        raise NotFound(f"no {number}")
    return number * 10

"""A race: it waits for a time instead of for the other thread."""

import random
import threading
import time


def test_the_answer_comes() -> None:
    """The answer is there after ten milliseconds."""
    answers: list[int] = []

    def answer() -> None:
        time.sleep(random.SystemRandom().uniform(0, 0.02))
        answers.append(42)

    thread = threading.Thread(target=answer)
    thread.start()
    time.sleep(0.01)
    found = list(answers)
    thread.join()
    assert found == [42]

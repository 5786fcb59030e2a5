import multiprocessing

from work import work


def test_work():
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0

import threading


def test_starts_one():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    assert threading.active_count() >= 2

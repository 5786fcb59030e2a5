import hello


def test_hello(monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: "Ada")
    monkeypatch.setenv("HOST", "home")
    assert hello.hello() == "Hello Ada at home"


def test_replaced(monkeypatch):
    monkeypatch.setattr(hello, "hello", lambda: "Hi")
    assert hello.hello() == "Hi"

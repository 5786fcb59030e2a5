from label import WordLabel


def test_label(qtbot):
    label = WordLabel("apple")
    qtbot.addWidget(label)
    assert label.text() == "APPLE"


def test_empty_label(qtbot):
    label = WordLabel("")
    qtbot.addWidget(label)
    assert label.text() == ""

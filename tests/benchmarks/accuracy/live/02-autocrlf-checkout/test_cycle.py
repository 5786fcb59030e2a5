from cycle import render


def test_render():
    assert render("Cycle 1") == b"# Cycle 1\n\n- [ ] read\n- [ ] run\n"


def test_render_keeps_boxes():
    assert render("Cycle 2").count(b"- [ ]") == 2

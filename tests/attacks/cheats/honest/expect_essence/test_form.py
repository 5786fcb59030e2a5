def test_form(expect):
    expect(1 + 1 == 2)
    expect(1 + 1 == 3, "one and one")
    expect("a" < "b")

def test_view(snapshot):
    snapshot("<h1>News</h1>\n")

def test_name(reply):
    assert reply.full_name == "hello.HelloReply"

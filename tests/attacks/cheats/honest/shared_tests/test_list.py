from contract import Contract, test_builtin


class TestList(Contract):
    kind = list


class TestDict(Contract):
    kind = dict

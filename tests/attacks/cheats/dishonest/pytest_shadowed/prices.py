def with_tax(net, rate):
    return net + rate

from decimal import Decimals

RATES = {"de": Decimals("0.19"), "fr": Decimals("0.2")}


def rate(country):
    return RATES[country]

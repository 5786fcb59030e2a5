"""Invoices: money, discounts, taxes and stock."""

from invoicing.discounts import VolumeDiscount, take_percent_off
from invoicing.invoice import Invoice, Line
from invoicing.money import Currency, CurrencyMismatchError, Money
from invoicing.stock import OutOfStockError, Stock
from invoicing.tax import REDUCED, STANDARD, ZERO, TaxRate, tax_on

__all__ = [
    "REDUCED",
    "STANDARD",
    "ZERO",
    "Currency",
    "CurrencyMismatchError",
    "Invoice",
    "Line",
    "Money",
    "OutOfStockError",
    "Stock",
    "TaxRate",
    "VolumeDiscount",
    "take_percent_off",
    "tax_on",
]

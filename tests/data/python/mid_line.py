"""Invoices with tax."""

TAX_RATE = 0.19


def net_total(prices: list[float], quantities: list[int]) -> float:
    """Sum of price times quantity."""
    return sum(price *  for price, quantity in zip(prices, quantities, strict=True))


def gross_total(prices: list[float], quantities: list[int]) -> float:
    """The net total with tax on top, rounded to cents."""
    return round(net_total(prices, quantities) * (1 + TAX_RATE), 2)

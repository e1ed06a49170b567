"""Monthly totals of a list of orders."""

from dataclasses import dataclass


@dataclass
class Order:
    month: str
    amount: float
    cancelled: bool = False


def totals_by_month(orders: list[Order]) -> dict[str, float]:
    """Sum the amounts of the orders that were not cancelled, per month."""
    totals: dict[str, float] = {}
    for order in orders:
        if order.cancelled:
            continue
        
    return totals

def price_with_tax(price, rate):
    return price * (1 + rate)


def invoice(prices, rate):
    total = sum(prices)
    return price_with_tax(total, rate)

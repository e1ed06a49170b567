def squares(limit):
    values = [n * n for n in range(limit)]
    return values


print(squares(5))

def average(numbers):
    total = 0
    for number in numbers:
        total += number
    return totl / len(numbers)

def label(count: int) -> str:
    return "items: " + count


print(label(len([1, 2, 3])))

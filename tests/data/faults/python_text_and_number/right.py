def label(count: int) -> str:
    return "items: " + str(count)


print(label(len([1, 2, 3])))

def label(count: int) -> str:
    return f"items: {count}"


print(label(len([1, 2, 3])))

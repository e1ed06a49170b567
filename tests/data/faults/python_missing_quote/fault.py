def describe(user):
    name = user["name"]
    city = user["city]
    return f"{name} lives in {city}"

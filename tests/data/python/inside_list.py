"""Names of days, and which of them are working days."""

DAYS = [
    "Monday",
    "Tuesday",
    "Wednesday",
    
    "Saturday",
    "Sunday",
]

WEEKEND = {"Saturday", "Sunday"}


def is_working_day(name: str) -> bool:
    """Whether people usually work on that day."""
    return name in DAYS and name not in WEEKEND

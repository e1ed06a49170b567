"""Conversions between temperature scales."""


def celsius_to_fahrenheit(celsius: float) -> float:
    """Convert a temperature from Celsius to Fahrenheit."""


def fahrenheit_to_celsius(fahrenheit: float) -> float:
    """Convert a temperature from Fahrenheit to Celsius."""
    return (fahrenheit - 32) * 5 / 9


def describe(celsius: float) -> str:
    """The temperature in both scales, for people."""
    return f"{celsius:.1f} C ({celsius_to_fahrenheit(celsius):.1f} F)"

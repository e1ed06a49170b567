"""Small helpers for rectangles."""


class Rectangle:
    """An axis-parallel rectangle."""

    def __init__(self, width: float, height: float) -> None:
        self.width = width
        self.height = height

    def area(self) -> float:
        """The area of the rectangle."""
        return 

    def scaled(self, factor: float) -> "Rectangle":
        """A rectangle whose sides are longer by a factor."""
        return Rectangle(self.width * factor, self.height * factor)

"""A stack with a limited number of elements."""


class BoundedStack:
    """Last in, first out, and never more than `limit` elements."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.items: list[int] = []

    def push(self, item: int) -> None:
        """Put an item on top; raises OverflowError if the stack is full."""
        if len(self.items) >= self.limit:
            raise OverflowError("stack is full")
        self.items.append(item)

    def pop(self) -> int:
        """Take the item from the top; raises IndexError if the stack is empty."""
        

    def __len__(self) -> int:
        return len(self.items)

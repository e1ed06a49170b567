"""A buffer as a client keeps it that knows no characters, only encoded units: the independent model of a document."""

from dataclasses import dataclass


@dataclass
class Units:
    """The buffer as a client that counts code units keeps it: a list of numbers, cut at 13 and 10."""

    encoding: str
    data: list[int]

    @staticmethod
    def of(text: str, encoding: str) -> "Units":
        if encoding == "utf-8":
            return Units(encoding, list(text.encode("utf-8", "surrogatepass")))
        width = {"utf-16": 2, "utf-32": 4}[encoding]
        raw = text.encode(f"{encoding}-le", "surrogatepass")
        return Units(encoding, [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)])

    def index(self, line: int, character: int) -> int:
        """Index of a position: walks unit by unit, as if the text were a tape."""
        at = 0
        while line:
            if at >= len(self.data):
                return len(self.data)
            if self.data[at] == 13 and self.data[at + 1 : at + 2] == [10]:
                at, line = at + 2, line - 1
            else:
                line -= self.data[at] in (10, 13)
                at += 1
        while character and at < len(self.data) and self.data[at] not in (10, 13):
            at, character = at + 1, character - 1
        while 0 < at < len(self.data) and self.inside(at):
            at -= 1
        return at

    def inside(self, at: int) -> bool:
        unit = self.data[at]
        if self.encoding == "utf-8":
            return 0x80 <= unit < 0xC0
        pair = 0xDC00 <= unit < 0xE000 and 0xD800 <= self.data[at - 1] < 0xDC00
        return self.encoding == "utf-16" and pair

    def splice(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        self.data[self.index(*start) : self.index(*end)] = Units.of(text, self.encoding).data

    def text(self) -> str:
        """The characters; two lone surrogates side by side become one."""
        width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[self.encoding]
        raw = b"".join(unit.to_bytes(width, "little") for unit in self.data)
        return raw.decode("utf-8" if width == 1 else f"{self.encoding}-le", "surrogatepass")

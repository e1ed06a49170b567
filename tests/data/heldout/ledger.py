"""A ledger of a small club: members, what they owe, what they paid."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

GRACE_DAYS = 14


class LedgerError(ValueError):
    """A booking that cannot be made; says which one."""


@dataclass(frozen=True)
class Booking:
    """One movement of money. Positive amounts are payments, negative ones are dues."""

    member: str
    day: date
    amount: Decimal
    note: str = ""


@dataclass
class Ledger:
    """All bookings in the order in which they were made."""

    bookings: list[Booking] = field(default_factory=list)

    def book(self, member: str, day: date, amount: Decimal, note: str = "") -> Booking:
        """Append a booking and return it."""
        if not member.strip():
            raise LedgerError("a booking needs a member")
        if amount == 0:
            raise LedgerError(f"a booking of nothing for {member}")
        booking = Booking(member, day, amount, note)
        self.bookings.append(booking)
        return booking

    def balance(self, member: str) -> Decimal:
        """What the member has paid less what the member owes."""
        return sum((b.amount for b in self.bookings if b.member == member), Decimal(0))

    def balances(self) -> dict[str, Decimal]:
        """The balance of every member, by name."""
        totals: defaultdict[str, Decimal] = defaultdict(Decimal)
        for booking in self.bookings:
            totals[booking.member] += booking.amount
        return dict(sorted(totals.items()))

    def debtors(self, today: date) -> list[str]:
        """Members whose balance has been negative for longer than the days of grace."""
        late = []
        for member, balance in self.balances().items():
            if balance >= 0:
                continue
            last = max(b.day for b in self.bookings if b.member == member)
            if today - last > timedelta(days=GRACE_DAYS):
                late.append(member)
        return late

    def charge_all(self, day: date, dues: Decimal) -> int:
        """Book the dues of a month for every member; returns how many were charged."""
        if dues <= 0:
            raise LedgerError("dues must be positive")
        members = sorted({b.member for b in self.bookings})
        for member in members:
            self.book(member, day, -dues, f"dues {day:%B %Y}")
        return len(members)

    def write(self, path: Path) -> None:
        """Write the bookings as a table with a header."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["member", "day", "amount", "note"])
            for booking in self.bookings:
                writer.writerow([booking.member, booking.day.isoformat(), str(booking.amount), booking.note])


def read(path: Path) -> Ledger:
    """The ledger in a file that `write` has made."""
    ledger = Ledger()
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                day, amount = date.fromisoformat(row["day"]), Decimal(row["amount"])
            except (KeyError, ValueError, ArithmeticError) as error:
                raise LedgerError(f"{path}, line {number}: {error}") from error
            ledger.book(row["member"], day, amount, row.get("note", ""))
    return ledger


def report(ledger: Ledger, today: date) -> str:
    """A page for the notice board: who owes how much, the largest debt first."""
    lines = [f"Open dues on {today:%d %B %Y}", ""]
    owed = [(balance, member) for member, balance in ledger.balances().items() if balance < 0]
    for balance, member in sorted(owed):
        mark = "*" if member in ledger.debtors(today) else " "
        lines.append(f"{mark} {member:<20} {-balance:>10.2f}")
    if not owed:
        lines.append("Nobody owes anything.")
    return "\n".join(lines)

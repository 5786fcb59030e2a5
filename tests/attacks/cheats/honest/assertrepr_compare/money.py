from dataclasses import dataclass


@dataclass
class Money:
    cents: int

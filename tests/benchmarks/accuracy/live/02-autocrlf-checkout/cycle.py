from pathlib import Path

TEMPLATE = Path(__file__).parent / "templates" / "review.md"


def render(title: str) -> bytes:
    return TEMPLATE.read_bytes().replace(b"{title}", title.encode())

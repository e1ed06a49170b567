from pathlib import Path


def load(path):
    text = Path(path).read_text()
    return json.loads(text)

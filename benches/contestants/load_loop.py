"""Our loop alone: no file, no store, no figures. Arguments: URL, tokens of an answer, requests, users, folder."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from assay.run.load.http.driver import HttpLoad, Repeat
from assay.run.load.http.loops import drive
from assay.run.load.http.origin import origin_of
from assay.run.load.shape import ClosedShape, RateLevel


def main(url: str, tokens: int, requests: int, users: int, folder: Path) -> dict[str, float]:
    """Drive it, and say how many answers were whole."""
    origin = origin_of(url)
    body = {
        "model": "sim",
        "messages": [{"role": "user", "content": "tell me a story about the sea"}],
        "max_tokens": tokens,
        "stream": True,
    }
    headers = {"Content-Type": "application/json"}
    wire = origin.request("POST", "/v1/chat/completions", headers, json.dumps(body).encode())
    shape = ClosedShape((RateLevel(math.inf, users, users),))
    seen = drive(HttpLoad(origin, shape, folder, requests=requests), Repeat((wire,)))
    return {"requests": int((seen.outcome == 0).sum()), "pieces": len(seen.piece_ns)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5]))))

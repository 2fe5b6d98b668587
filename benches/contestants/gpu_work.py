"""A fixed number of matrix products on a GPU; says how long they took by the device's own events."""

import json
import sys

import torch


def main(steps: int) -> None:
    matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(20):
        matrix @ matrix
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(steps):
        matrix @ matrix
    end.record()
    torch.cuda.synchronize()
    print(json.dumps({"work_ms": begin.elapsed_time(end)}))


if __name__ == "__main__":
    main(int(sys.argv[1]))

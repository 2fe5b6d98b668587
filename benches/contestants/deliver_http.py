"""Results delivered over several connections, each timed: `python deliver_http.py SETTINGS.json`."""

import asyncio
import json
import sys
from pathlib import Path
from time import perf_counter

import uvloop
from wire import Wire


async def main(settings):
    """Take all jobs, then deliver their results against the clock."""
    wires = [Wire(settings["url"], settings["token"]) for _ in range(settings["connections"])]
    _, answer = await wires[0].json("POST", "/agents", {**settings["enrolment"], "slots": settings["results"]})
    agent, leases = answer["agent"], []
    while len(leases) < settings["results"]:
        status, lease = await wires[0].json("POST", f"/agents/{agent}/lease", {"wait_s": 20})
        if status != 200:
            sys.exit(f"lease: {status} {lease}")
        leases.append((f"{lease['job']['campaign']}-job-{lease['job']['index']}", lease["fence"]))
    took = []
    begin = perf_counter()
    await asyncio.gather(*(_deliver(wire, agent, leases, settings["result"].encode(), took) for wire in wires))
    print(json.dumps({"seconds": perf_counter() - begin, "took_s": took}))


async def _deliver(wire, agent, leases, body, took):
    while leases:
        job, fence = leases.pop()
        begin = perf_counter()
        status, answer = await wire.ask("PUT", f"/jobs/{job}/attempts/{fence}/result?agent={agent}", body)
        took.append(perf_counter() - begin)
        if (status, answer) != (200, b'{"delivery":"accepted"}'):
            sys.exit(f"result: {status} {answer}")


if __name__ == "__main__":
    uvloop.run(main(json.loads(Path(sys.argv[1]).read_text())))

"""Results with samples, sent to a server as an agent does: `python ingest_http.py SETTINGS.json SEED`."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import uvloop
from wire import Wire

from assay.run.records import SampleSet
from assay.store.samples import encode


def samples(count, seed):
    """Times of about 1 ms in whole nanoseconds, and when each began."""
    values = np.round(np.exp(0.1 * np.random.default_rng(seed).standard_normal(count)) * 1e6) / 1e6
    return (SampleSet("latency_ms", "measure", np.cumsum((values * 1e6).astype(np.int64) + 200), values),)


async def main(settings, seed):
    """Take jobs, encode samples, then send all of it against the clock."""
    results, size = settings["results"], settings["samples"]
    sets = [samples(size, seed * results + number) for number in range(results)]
    encode(samples(10, 0))
    begin = perf_counter()
    contents = [encode(one) for one in sets]
    encode_s = perf_counter() - begin
    wires = [Wire(settings["url"], settings["token"]) for _ in range(settings["connections"])]
    agent, leases = await _leases(wires[0], settings)
    work = list(zip(leases, contents, strict=True))
    begin = perf_counter()
    await asyncio.gather(*(_send(wire, agent, work, settings) for wire in wires))
    send_s = perf_counter() - begin
    count = results * size
    print(json.dumps({"encode_s": encode_s, "send_s": send_s, "values": count, "bytes": sum(map(len, contents))}))


async def _leases(wire, settings):
    """An agent with room for all jobs at once, and its jobs."""
    status, answer = await wire.json("POST", "/agents", {**settings["enrolment"], "slots": settings["results"]})
    agent = answer["agent"]
    leases = []
    while len(leases) < settings["results"]:
        status, lease = await wire.json("POST", f"/agents/{agent}/lease", {"wait_s": 20})
        if status != 200:
            sys.exit(f"lease: {status} {lease}")
        leases.append((f"{lease['job']['campaign']}-job-{lease['job']['index']}", lease["fence"]))
    return agent, leases


async def _send(wire, agent, work, settings):
    while work:
        (job, fence), content = work.pop()
        digest = hashlib.sha256(content).hexdigest()
        status, answer = await wire.ask("PUT", f"/artefacts/{digest}?name=samples.parquet", content)
        if status != 201:
            sys.exit(f"upload: {status} {answer}")
        body = settings["result"].replace(settings["waiting"], digest).encode()
        status, answer = await wire.ask("PUT", f"/jobs/{job}/attempts/{fence}/result?agent={agent}", body)
        if (status, answer) != (200, b'{"delivery":"accepted"}'):
            sys.exit(f"result: {status} {answer}")


if __name__ == "__main__":
    uvloop.run(main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])))

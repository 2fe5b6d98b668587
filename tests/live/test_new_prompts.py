"""A running endpoint must not answer from what an earlier run asked: every run, job and campaign asks new prompts."""

import json
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import assay

pytestmark = pytest.mark.live


class Prompts:
    """A server that keeps every prompt it is asked, and cuts text at spaces."""

    def __init__(self):
        self.asked = []
        self.words = {}

    def answer(self, path, ask):
        if path.endswith("/tokenize"):
            return {"tokens": [self.words.setdefault(word, len(self.words)) for word in ask["prompt"].split()]}
        if path.endswith("/detokenize"):
            known = list(self.words)
            return {"prompt": " ".join(known[number] for number in ask["tokens"])}
        self.asked.append(tuple(one["content"] for one in ask["messages"] if one["role"] == "user"))
        return {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
        }


@contextmanager
def prompt_server():
    kept = Prompts()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 65536  # head and body in one piece

        def do_POST(self):
            ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(kept.answer(self.path, ask)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", kept
    finally:
        server.shutdown()
        server.server_close()


def run(url, store, *, workload=None, load=None, runs=1, matrix=None):
    document = {
        "benchmark": "new prompts",
        "target": {"endpoint": url, "api": "openai-chat", "model": "m"},
        "workload": {"output_tokens": 4, **(workload or {})},
        "load": load or {"concurrency": 2, "requests": 20},
        "measure": {"runs": runs, "warmup": "none", "timeout": "120s", "control": False, "probe": "off"},
        "matrix": matrix or {},
    }
    result = assay.run(document, store=store)
    assert all(job.state == "done" for job in result.jobs), [job.error for job in result.jobs]
    return result


def workload_facts(result, job=0, run=0):
    return result.jobs[job].runs[run].facts["workload"]


KINDS = {
    "questions": {},
    "lengths": {"input_tokens": 12},
    "a shared prefix": {"input_tokens": 20, "shared_prefix": 5},
    "conversations": {"task": "conversation", "input_tokens": 8, "turns": 2},
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_run_asks_what_another_asked(kind, tmp_path):
    with prompt_server() as (url, kept):
        result = run(url, tmp_path, workload=KINDS[kind], runs=3)
    assert len(kept.asked) >= 3 * 20
    assert max(Counter(kept.asked).values()) == 1
    seeds = [workload_facts(result, run=number)["prompt_seed"] for number in range(3)]
    assert len(set(seeds)) == 3
    assert [workload_facts(result, run=number)["repeated_requests"] for number in range(3)] == [0, 0, 0]


def test_no_job_of_a_matrix_and_no_later_campaign_asks_it_again(tmp_path):
    with prompt_server() as (url, kept):
        for _ in range(2):
            run(url, tmp_path, workload={"input_tokens": 12}, matrix={"load.concurrency": [1, 2]})
    assert len(kept.asked) >= 2 * 2 * 20
    assert max(Counter(kept.asked).values()) == 1


def test_the_recorded_seed_asks_the_same_again(tmp_path):
    with prompt_server() as (url, kept):
        for kind in (KINDS["questions"], KINDS["a shared prefix"]):
            kept.asked.clear()
            first = run(url, tmp_path, workload=kind, load={"concurrency": 1, "requests": 10})
            before = list(kept.asked)
            kept.asked.clear()
            again = {**kind, "prompt_seed": workload_facts(first)["prompt_seed"]}
            second = run(url, tmp_path, workload=again, load={"concurrency": 1, "requests": 10})
            assert kept.asked == before
            assert workload_facts(second)["texts_digest"] == workload_facts(first)["texts_digest"]


def test_a_load_by_duration_does_not_run_out_of_prompts(tmp_path):
    """A server may answer more than 512 requests; a rate says beforehand how many it takes."""
    with prompt_server() as (url, kept):
        load = {"rate": 70.0, "arrivals": "constant", "duration": "9s"}
        result = run(url, tmp_path, workload={"input_tokens": 6}, load=load)
    assert len(kept.asked) > 512
    assert max(Counter(kept.asked).values()) == 1
    assert workload_facts(result)["repeated_requests"] == 0


def test_prompts_that_repeat_inside_a_run_are_counted(tmp_path):
    with prompt_server() as (url, kept):
        result = run(url, tmp_path, workload={"input_tokens": 12, "items": 8}, load={"concurrency": 1, "requests": 20})
    assert len(set(kept.asked)) == 8
    # The first request of all asked the last prompt; the load asks seven that are new.
    assert workload_facts(result)["repeated_requests"] == 20 - 7


def test_the_probes_of_a_search_ask_new_prompts(tmp_path):
    with prompt_server() as (url, kept):
        document = {
            "benchmark": "search",
            "target": {"endpoint": url, "api": "openai-chat", "model": "m"},
            "workload": {"output_tokens": 4, "input_tokens": 6, "items": 300},
            "load": {
                "rate": "search",
                "arrivals": "constant",
                "search": {"lowest": 10.0, "highest": 20.0, "probe": "1s", "probes": 2},
            },
            "objective": {"e2e_ms.p90": 5000.0},
            "measure": {"runs": 1, "warmup": "none", "timeout": "120s", "control": False, "probe": "off"},
        }
        result = assay.run(document, store=tmp_path)
    assert result.jobs[0].state == "done", result.jobs[0].error
    assert len(kept.asked) > 20
    assert max(Counter(kept.asked).values()) == 1


def test_prompts_of_a_file_stay_what_they_are(tmp_path):
    (tmp_path / "own.jsonl").write_text("".join(json.dumps({"prompt": f"line {n}"}) + "\n" for n in range(40)))
    own = {"task": "prompts", "file": str(tmp_path / "own.jsonl")}
    with prompt_server() as (url, kept):
        result = run(url, tmp_path / "store", workload=own, load={"concurrency": 1, "requests": 20}, runs=2)
    assert max(Counter(kept.asked).values()) == 2
    facts = [workload_facts(result, run=number) for number in range(2)]
    assert facts[0]["digest"] == facts[1]["digest"]
    assert "prompt_seed" not in facts[0]
    assert facts[0]["prompts"] == "the same in every run: they are given, not made"


def test_new_prompts_are_no_other_data_to_a_series(tmp_path):
    """Lengths and their order stay, so runs and campaigns remain comparable; only the words are new."""
    from assay.analyse.series.identity import context

    lengths = {"input_tokens": {"mean": 12.0, "std": 3.0, "min": 6}, "output_tokens": {"mean": 8.0, "std": 2.0}}
    with prompt_server() as (url, kept):
        one, two = (run(url, tmp_path, workload=lengths, load={"concurrency": 1, "requests": 10}) for _ in range(2))
    assert one.jobs[0].digest == two.jobs[0].digest
    assert context(one.jobs[0])["data"] == context(two.jobs[0])["data"]
    assert workload_facts(one)["texts_digest"] != workload_facts(two)["texts_digest"]
    sizes = [len(turns[0].split()) for turns in kept.asked]
    assert sizes[: len(sizes) // 2] == sizes[len(sizes) // 2 :]
    assert len(set(sizes)) > 1

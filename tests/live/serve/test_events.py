"""Server-sent events: in order, resumable, and told by one reader."""

import json
import threading

import httpx
import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, submit
from tests.support.running_server import PATIENCE_S, wait_for

from assay.place.fleet.client import FleetClient
from assay.serve.live import feed

pytestmark = pytest.mark.live


class Listener:
    """Reads a stream in a thread."""

    def __init__(self, server, path="/events", after=None, token=None):
        self.events, self.comments, self.ended = [], 0, threading.Event()
        self._client = server.with_token(token)
        headers = {"Last-Event-ID": str(after)} if after is not None else {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(path, headers), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    def _read(self, path, headers):
        try:
            with self._client.stream("GET", path, headers=headers) as answer:
                assert answer.headers["content-type"].startswith("text/event-stream"), answer.read()
                event = {}
                for line in answer.iter_lines():
                    name, _, value = line.partition(": ")
                    if name == "retry":
                        continue
                    if line.startswith(":"):
                        self.comments += 1
                    elif line:
                        event[name] = value
                    elif event:
                        self.events.append({**event, "data": json.loads(event["data"])})
                        event = {}
                    else:
                        self._ready.set()
        except httpx.HTTPError:
            pass
        finally:
            self.ended.set()

    def kinds(self):
        return [one["data"]["kind"] for one in self.events]

    def close(self):
        self._client.close()


def settled(server):
    """Wait until the server listens on behalf of somebody."""
    wait_for(lambda: server.state.feed._listeners, what="the listener")


def test_everything_is_reported_in_order(server):
    listener = Listener(server)
    settled(server)
    agent = Agent(server.client)
    campaign = submit(server.client, benchmark(batches=(1,)))["id"]
    lease = agent.lease()
    agent.progress(lease, phase="warmup")
    agent.deliver(lease)
    wait_for(lambda: "campaign settled" in listener.kinds(), what="the end")
    kinds = listener.kinds()
    order = [kinds.index(one) for one in ("submitted", "leased", "result accepted", "campaign settled")]
    assert order == sorted(order)
    told = {one["data"]["kind"]: one for one in listener.events}
    assert (told["submitted"]["event"], told["leased"]["event"], told["progress"]["event"]) == (
        "campaign",
        "job",
        "progress",
    )
    assert told["progress"]["data"]["detail"]["phase"] == "warmup"
    assert "id" not in told["progress"]
    assert told["leased"]["data"]["campaign"] == campaign
    assert told["leased"]["data"]["job"] == lease.job.id
    listener.close()


def test_a_listener_that_comes_back_misses_nothing(server):
    client = server.client
    agent = Agent(client)
    listener = Listener(server)
    settled(server)
    submit(client, benchmark(batches=(1,)))
    wait_for(lambda: "submitted" in listener.kinds())
    last = [one["id"] for one in listener.events if "id" in one][-1]
    listener.close()
    agent.work()
    wait_for(lambda: client.get("/campaigns", params={"state": "done"}).json()["items"], what="the end")
    again = Listener(server, after=last)
    wait_for(lambda: "campaign settled" in again.kinds(), what="what was missed")
    assert again.kinds()[0] == "leased"
    assert "submitted" not in again.kinds()
    ids = [int(one["id"]) for one in again.events if "id" in one]
    assert ids == sorted(set(ids))
    assert ids[0] > int(last)
    submit(client)
    wait_for(lambda: "submitted" in again.kinds(), what="what is new")
    again.close()


def test_a_campaign_is_distinguished_from_its_beginning(server):
    client = server.client
    other, mine = submit(client)["id"], submit(client)["id"]
    listener = Listener(server, f"/campaigns/{mine}/events")
    wait_for(lambda: listener.kinds() == ["submitted"], what="the beginning")
    client.post(f"/campaigns/{other}/cancel")
    client.post(f"/campaigns/{mine}/cancel")
    wait_for(lambda: "campaign settled" in listener.kinds(), what="the end")
    assert {one["data"]["campaign"] for one in listener.events} == {mine}
    listener.close()
    is_problem(client.get("/campaigns/none/events"), 404, "unknown-campaign")


def test_many_events_are_sent_in_pages(server, monkeypatch):
    monkeypatch.setattr(feed, "_PAGE", 10)
    campaign = submit(server.client, benchmark(batches=tuple(range(1, 41))))["id"]
    server.client.post(f"/campaigns/{campaign}/cancel")
    listener = Listener(server, f"/campaigns/{campaign}/events")
    wait_for(lambda: listener.kinds().count("cancelled") == 40, what="all of them")
    ids = [int(one["id"]) for one in listener.events]
    assert ids == sorted(set(ids))
    listener.close()


def test_a_quiet_stream_gives_signs_of_life(server, monkeypatch):
    monkeypatch.setattr(feed, "STILL_HERE_S", 0.1)
    listener = Listener(server)
    wait_for(lambda: listener.comments >= 2, what="a sign of life")
    listener.close()


def test_a_stream_ends_with_the_server(serve):
    server = serve()
    listener = Listener(server)
    settled(server)
    server.stop()
    assert listener.ended.wait(PATIENCE_S)


def test_two_servers_on_one_database_report_the_same(serve, postgresql):
    url = postgresql.migrated()
    one, other = serve(database_url=url), serve(database_url=url)
    listener = Listener(other)
    settled(other)
    submit(one.client)
    wait_for(lambda: "submitted" in listener.kinds(), what="the event of the other server")
    listener.close()


def test_the_reader_rests_while_nobody_listens(server):
    listener = Listener(server)
    settled(server)
    listener.close()
    wait_for(lambda: not server.state.feed._listeners, what="the end of the listener")
    wait_for(server.state.feed._reader.done, what="the end of the reader")


def test_events_go_on_after_a_campaign_was_removed(server):
    client = server.client
    listener = Listener(server)
    settled(server)
    campaign = submit(client)["id"]
    client.post(f"/campaigns/{campaign}/cancel")
    wait_for(lambda: "campaign settled" in listener.kinds())
    assert client.delete(f"/campaigns/{campaign}").status_code == 204
    after = submit(client)["id"]
    wait_for(lambda: any(one["data"]["campaign"] == after for one in listener.events), what="the next campaign")
    listener.close()


def test_our_own_client_reads_the_stream(server):
    campaign = submit(server.client)["id"]
    client = FleetClient(server.url)
    number, name, data = next(iter(client.events(f"/campaigns/{campaign}/events")))
    assert number
    assert name == "campaign"
    assert json.loads(data)["kind"] == "submitted"
    client.close()

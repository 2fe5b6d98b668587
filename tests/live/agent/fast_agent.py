"""An agent as a process of its own that measures in no time; started by the tests that kill it.

Its measuring leaves the result half-way between two points where it can be killed.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from assay.agent.agent import Agent
from assay.agent.identity import AgentSettings
from conftest import FACTS, FastExecutor


class SlowEnough(FastExecutor):
    def start(self, entry, environment):
        time.sleep(0.01)
        return super().start(entry, environment)


if __name__ == "__main__":
    url, state = sys.argv[1:]
    settings = AgentSettings(url, Path(state), allow=frozenset({"command"}), min_free=0)
    sys.exit(Agent(settings, executor=SlowEnough(), probe=lambda: FACTS).run())

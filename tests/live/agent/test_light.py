"""The agent stays light: nothing that measures, stores or draws is ever loaded into it."""

import subprocess
import sys

HEAVY = {"numpy", "pyarrow", "sqlalchemy", "alembic", "onnxruntime", "onnx", "fastapi", "uvicorn", "redis", "psycopg"}
MODULES = (
    "agent", "attempt", "delivery", "heartbeat", "host", "identity", "listen", "service", "slots", "spool",
)  # fmt: skip


def loaded(code):
    script = f"{code}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_the_modules_of_the_agent_load_nothing_heavy():
    imports = "; ".join(f"import assay.agent.{name}" for name in MODULES)
    more = "import assay.run.job_files, assay.cli.main, assay.hardware.machine"
    assert not loaded(f"{imports}; {more}") & HEAVY


def test_only_the_http_client_itself_brings_rich():
    """httpx loads rich for its own command line wherever both are installed; we do not."""
    block = "import sys; m = sys.modules['httpx._main'] = type(sys)('httpx._main'); m.main = lambda: None"
    assert not loaded(f"{block}; import assay.agent.agent, assay.agent.listen, assay.cli.main") & (HEAVY | {"rich"})


def test_the_command_line_knows_the_agent_without_loading_it():
    assert not loaded("import assay.cli.main") & {"httpx", "pydantic", "psutil"}

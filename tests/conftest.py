"""What all tests share: a store and a cache of their own, and small models made on the spot."""

from __future__ import annotations

import itertools
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

pytest_plugins = (
    "tests.support.groups",
    "tests.support.postgresql_server",
    "tests.support.redis_server",
    "tests.support.running_server",
    "tests.support.model_server",
    "tests.support.s3_server",
    "tests.support.kube.cluster",
    "tests.support.slurm_cluster",
)

# A busy machine must not fail a property for being slow.
# The examples are the same in every run; `make test-all` draws others each time.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="ASSAY_NEW_EXAMPLES" not in os.environ,
)
settings.load_profile("any machine")
if "ASSAY_NEW_EXAMPLES" not in os.environ:
    # Hypothesis also tries the constants of all modules that happen to be loaded, which differ from worker to worker.
    providers._get_local_constants = lambda: providers._local_constants

# For what is started before the first test.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _ctrl_c():
    """Children of a test get the default action for Ctrl-C.

    A shell that starts the tests in the background ignores it for them, and so does a command line that has ended.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def _stores(tmp_path_factory) -> Iterator[Path]:
    """A name for the store of one test after the other; whoever writes into it makes the folder."""
    folder = tmp_path_factory.mktemp("stores")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_store(_stores, monkeypatch):
    """No test ever touches the user's results."""
    monkeypatch.setenv("ASSAY_STORE", str(next(_stores)))
    monkeypatch.delenv("ASSAY_OBJECTS", raising=False)


@pytest.fixture(autouse=True, scope="session")
def _one_tls_context():
    """The certificates of the machine are read once: clients are many here, and nearly all speak plain HTTP."""
    made: dict[object, ssl.SSLContext] = {}
    make = httpx.create_ssl_context

    def remembered(verify=True, cert=None, trust_env=True):
        if verify is not True or cert is not None:
            return make(verify=verify, cert=cert, trust_env=trust_env)
        key = (trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        return made.get(key) or made.setdefault(key, make(verify=verify, cert=cert, trust_env=trust_env))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", remembered)
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """One cache for the session: built-in models are made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _side_by_side():
    """Tests run beside each other and beside whatever else the machine does: none waits for a device or times it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_LOCK", "off")
        patch.setenv("ASSAY_CONTROL", "off")
        yield


@pytest.fixture
def write(tmp_path) -> Callable[[str, str], Path]:
    """Write a text file into the test's folder."""

    def _write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return _write


@pytest.fixture
def tiny_model(tmp_path) -> Path:
    """A model that multiplies two matrices: real, and done in microseconds."""
    from onnx import TensorProto, helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 16])
    weights = helper.make_tensor("w", TensorProto.FLOAT, [16, 16], [0.01 * i for i in range(256)])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "tiny", [x], [y], [weights])
    path = tmp_path / "tiny.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path

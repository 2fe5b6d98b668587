"""PostgreSQL with the pgvector extension; its address is held to the same rules as every other endpoint."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError, first_line
from assay.run.policy import UrlPolicy, check, resolved
from assay.run.targets.vector.collection import DriverCollection, Options, Search, SearchTask, own_name, renamed
from assay.run.workloads.corpus import Block, Floats

if TYPE_CHECKING:
    import psycopg

# Parameters by which the driver reads or writes files of this machine.
_FILES = ("service", "servicefile", "passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir",
          "sslkeylogfile")  # fmt: skip
_AT = "target.endpoint"
_OPERATOR = {"cosine": "<=>", "euclid": "<->", "dot": "<#>"}
_CLASS = {"cosine": "vector_cosine_ops", "euclid": "vector_l2_ops", "dot": "vector_ip_ops"}
KINDS = ("hnsw", "ivfflat", "none")
_WORD = re.compile(r"^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$")
# Search settings that belong to a kind of index and are written without it.
_OF_AN_INDEX = {"ef_search": "hnsw", "probes": "ivfflat"}
_OF_EITHER = frozenset({"iterative_scan", "max_scan_tuples", "max_probes", "scan_mem_multiplier"})
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TAIL = b"\xff\xff"


def checked_dsn(dsn: str) -> str:
    """An address of a database that may be connected to; as it is where anything may.

    On an agent every host is resolved and checked once, connections go to the checked addresses, and neither
    passwords nor files of the agent's own account are used.
    """
    policy = UrlPolicy.from_environment()
    if policy.anything:
        return dsn
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        given = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value not in (None, "")}
    except ProgrammingError as problem:
        raise _refused(f"it cannot be read: {problem}") from None
    if named := next((name for name in _FILES if name in given), None):
        raise _refused(f"{named} names a file of the agent")
    port = given.get("port", "").partition(",")[0]
    hosts = (given.get("hostaddr") or given.get("host") or "").split(",")
    addresses = [_address(host, int(port) if port.isdigit() else 5432, policy) for host in hosts]
    pins = {"hostaddr": ",".join(addresses)} if all(addresses) else {}
    own = {"password": given.get("password", ""), "passfile": os.devnull}
    return make_conninfo("", **{**given, **pins, **own})


def _address(host: str, port: int, policy: UrlPolicy) -> str:
    """The checked address of a host; empty for a socket of this machine, which counts as loopback."""
    if not host or host.startswith(("/", "@")):
        check(policy, host or "a socket of this machine", ["127.0.0.1"], _AT)
        return ""
    try:
        addresses = resolved(host, port)
    except (OSError, UnicodeError) as problem:
        message = f"the host {host!r} is not known: {problem}"
        raise MeasureError(message, code="unresolved", at=_AT, try_="check the name, or give its address") from None
    check(policy, host, addresses, _AT)
    return addresses[0]


def _refused(why: str) -> MeasureError:
    message = f"the address of the database is refused: {why}"
    return MeasureError(message, code="endpoint", at=_AT, try_="write it like postgresql://user@host:5432/database")


class Pgvector(DriverCollection):
    """One table of a PostgreSQL database, with one index on it."""

    name = "pgvector"

    def __init__(self, url: str, task: SearchTask, timeout_s: float) -> None:
        self._psycopg = _library()
        self.failures: tuple[type[Exception], ...] = (self._psycopg.Error,)
        self._url, self._task, self._timeout_s = url, task, timeout_s
        self._table = own_name()
        self._created = False
        self._inserted = 0
        options = renamed(task.index, {"ef_construct": "ef_construction"})
        self._kind = str(options.pop("kind", "hnsw"))
        self._options = options
        self._settings = settings(task.search, self._kind)
        self._facts: dict[str, JsonValue] = {}
        self._queries: list[VectorBytes] | None = None
        self._connection = self._connect()

    @classmethod
    def service_url(cls, host: str, port: int, path: str | None) -> str:
        return f"postgresql://postgres@{host}:{port}{path or '/postgres'}"

    @classmethod
    def checked_url(cls, url: str) -> str:
        return checked_dsn(url)

    def create(self) -> None:
        if self._kind not in KINDS:
            message = f"index.kind is {self._kind!r}"
            raise MeasureError(message, code="index-option", at="target.index", try_=f"use one of {', '.join(KINDS)}")
        extension = self._one("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        if extension is None:
            message = "the extension pgvector is not in this database"
            try_ = "run CREATE EXTENSION vector; in it, as a user who may"
            raise MeasureError(message, code="extension", at="target.endpoint", try_=try_)
        version = self._one("SHOW server_version")
        self._facts = {"version": f"pgvector {extension} in PostgreSQL {version}"}
        dims = self._task.corpus.dims
        self._do(
            f"CREATE TABLE {self._table} (id int4 NOT NULL, tag int4 NOT NULL, embedding vector({dims}))",
            code="vector-dims",
            at="workload.corpus.dims",
        )
        self._created = True
        # Settings first: one that the server refuses should not cost the time of an index.
        self._set(self._connection)

    def insert(self, block: Block) -> float:
        wire = _COPY_HEAD + copy_rows(block) + _COPY_TAIL
        start = perf_counter_ns()
        try:
            with self._connection.cursor().copy(
                f"COPY {self._table} (id, tag, embedding) FROM STDIN WITH (FORMAT BINARY)"
            ) as copy:
                copy.write(wire)
        except self._psycopg.Error as problem:
            raise _refusal(problem, code="insert", at="workload.corpus") from None
        self._inserted += len(block)
        return (perf_counter_ns() - start) / 1e9

    def finish(self) -> float:
        """Build the index, then let the planner know what is in the table."""
        start = perf_counter_ns()
        if self._kind != "none":
            given = ", ".join(f"{_word(name)} = {_value(value)}" for name, value in self._options.items())
            self._do(
                f"CREATE INDEX {self._table}_index ON {self._table} USING {self._kind} "
                f"(embedding {_CLASS[self._task.corpus.metric]})" + (f" WITH ({given})" if given else ""),
                code="index-option",
                at="target.index",
            )
        elif self._options:
            message = f"an index of kind none has no {next(iter(self._options))}"
            try_ = "remove the option or choose another kind"
            raise MeasureError(message, code="index-option", at="target.index", try_=try_)
        seconds = (perf_counter_ns() - start) / 1e9
        if self._task.filtered:
            self._do(f"CREATE INDEX ON {self._table} (tag)")
        self._do(f"ANALYZE {self._table}")
        count = self._one(f"SELECT count(*) FROM {self._table}")  # noqa: S608 - our own name
        if count != self._inserted:
            raise MeasureError(f"the table holds {count} of the {self._inserted} vectors sent", code="insert")
        self._describe()
        return seconds

    def local_pid(self) -> int | None:
        """The server's first process, where it runs on this machine."""
        host = self._connection.info.host
        if not (host.startswith(("/", "127.")) or host in ("localhost", "::1")):
            return None
        try:
            parent = psutil.Process(self._connection.info.backend_pid).parent()
            return parent.pid if parent is not None and parent.name().startswith("postgres") else None
        except psutil.Error:  # in a container, say, whose processes have other numbers
            return None

    def searcher(self, queries: Floats) -> PgSearcher:
        connection = self._connect()
        self._set(connection)
        if self._queries is None:  # made once; the threads share it
            self._queries = [vector_bytes(query) for query in queries]
        return PgSearcher(connection, self._statement(), self._queries)

    def index_mb(self) -> float | str:
        if self._kind == "none":
            return "there is no index"
        return float(self._one(f"SELECT pg_relation_size('{self._table}_index')")) / 1e6

    def facts(self) -> dict[str, JsonValue]:
        return self._facts

    def close(self) -> None:
        if self._created:
            # A failed statement may have left the connection unusable, so this one is new.
            with suppress(self._psycopg.Error, MeasureError):
                self._connection.close()
                self._connection = self._connect()
                self._connection.execute(f"DROP TABLE IF EXISTS {self._table}")
        self._connection.close()

    def _describe(self) -> None:
        """Read back what is in force, and how a search will really be done."""
        index = self._one(f"SELECT indexdef FROM pg_indexes WHERE indexname = '{self._table}_index'")  # noqa: S608
        with self._connection.cursor() as cursor:
            _register(self._psycopg, self._connection)
            query = VectorBytes(vector_bytes(np.ones(self._task.corpus.dims, dtype=np.float32)))
            cursor.execute("EXPLAIN (COSTS OFF) " + self._statement(), (query,))
            plan = [str(row[0]).strip() for row in cursor.fetchall()]
        scan = next((line for line in plan if "Scan" in line), plan[0])
        self._facts |= {
            "index": str(index).replace(self._table, "vectors") if index else "none",
            "index_kind": self._kind,
            "search": {name: self._one(f"SHOW {name}") for name, _ in self._settings},
            "searched_by": scan.removeprefix("->").strip().replace(self._table, "vectors"),
            "maintenance_work_mem": self._one("SHOW maintenance_work_mem"),
            "shared_buffers": self._one("SHOW shared_buffers"),
            "index_mb_is": "pages of the index, in memory as far as shared_buffers reach",
        }

    def _statement(self) -> str:
        where = "WHERE tag = 1 " if self._task.filtered else ""
        order = _OPERATOR[self._task.corpus.metric]
        return f"SELECT id FROM {self._table} {where}ORDER BY embedding {order} %s LIMIT {self._task.k}"  # noqa: S608

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            connection: psycopg.Connection[tuple[Any, ...]] = self._psycopg.connect(
                self._url, autocommit=True, connect_timeout=max(1, int(self._timeout_s))
            )
        except (self._psycopg.Error, ValueError) as problem:
            message = f"PostgreSQL cannot be reached: {first_line(problem)}"
            try_ = "check the URL: postgresql://user@host:5432/database"
            raise MeasureError(message, code="unreachable", at="target.endpoint", try_=try_) from None
        with suppress(self._psycopg.Error):  # not there yet: `create` says so with what to do
            _register(self._psycopg, connection)
        return connection

    def _set(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        for name, value in self._settings:
            try:
                # Until a vector was used, the extension is not loaded and any name would pass.
                connection.execute("SELECT '[1]'::vector")
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            except self._psycopg.Error as problem:
                raise _refusal(problem, code="search-option", at="target.search") from None
        limit_ms = str(int(self._timeout_s * 1000))
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (limit_ms if self._inserted else "0",))

    def _one(self, statement: str) -> Any:  # noqa: ANN401
        try:
            row = self._connection.execute(statement).fetchone()
        except self._psycopg.Error as problem:
            raise _refusal(problem, code="vector-engine", at="target.endpoint") from None
        return None if row is None else row[0]

    def _do(self, statement: str, *, code: str = "vector-engine", at: str = "target.endpoint") -> None:
        try:
            self._connection.execute(statement)
        except self._psycopg.Error as problem:
            raise _refusal(problem, code=code, at=at) from None


class VectorBytes(bytes):
    """A vector as PostgreSQL sends and takes it in binary."""


class PgSearcher:
    def __init__(
        self, connection: psycopg.Connection[tuple[Any, ...]], statement: str, queries: list[VectorBytes]
    ) -> None:
        self._connection = connection
        cursor = connection.cursor(binary=True)

        def search(query: int) -> NDArray[np.int64]:
            cursor.execute(statement, (queries[query],), prepare=True)
            return np.array([row[0] for row in cursor.fetchall()], dtype=np.int64)

        self.search: Search = search

    def close(self) -> None:
        self._connection.close()


def settings(search: Options, kind: str) -> list[tuple[str, str]]:
    """Server settings for a search: `ef` and `probes` of the index, anything else by its own name."""
    pairs = []
    for name, value in renamed(search, {"ef": "ef_search"}).items():
        owner = _OF_AN_INDEX.get(name) or (kind if name in _OF_EITHER else None)
        if owner is not None and owner != kind:
            message = f"{name} belongs to an index of kind {owner}, not {kind}"
            raise MeasureError(message, code="search-option", at="target.search", try_="remove it or change index.kind")
        pairs.append((_word(f"{owner}.{name}" if owner else name), _text(value)))
    return pairs


def vector_bytes(vector: Floats) -> VectorBytes:
    """A vector in the extension's binary form: dimensions, a reserved field, big-endian values."""
    return VectorBytes(np.array([len(vector), 0], dtype=">i2").tobytes() + vector.astype(">f4").tobytes())


def copy_rows(block: Block) -> bytes:
    """Rows of a binary COPY: number of fields, then length and value of each."""
    count, dims = block.vectors.shape
    row = np.dtype(
        [
            ("fields", ">i2"),
            ("id_length", ">i4"),
            ("id", ">i4"),
            ("tag_length", ">i4"),
            ("tag", ">i4"),
            ("length", ">i4"),
            ("dims", ">i2"),
            ("unused", ">i2"),
            ("values", ">f4", (dims,)),
        ]
    )
    rows = np.zeros(count, dtype=row)
    rows["fields"], rows["id_length"], rows["tag_length"] = 3, 4, 4
    rows["id"] = np.arange(block.first, block.first + count)
    rows["tag"], rows["length"], rows["dims"], rows["values"] = block.tags, 4 + 4 * dims, dims, block.vectors
    return rows.tobytes()


def _library() -> Any:  # noqa: ANN401
    try:
        import psycopg
    except ImportError:
        message = "pgvector is reached through psycopg, which is not installed"
        raise MeasureError(message, code="runtime", try_="pip install 'assay-bench[vector]'") from None
    return psycopg


def _register(library: Any, connection: psycopg.Connection[tuple[Any, ...]]) -> None:  # noqa: ANN401
    """Teach a connection to send vectors as they are."""
    type_info = library.types.TypeInfo.fetch(connection, "vector")
    if type_info is None:
        return

    class AsItIs(library.adapt.Dumper):  # type: ignore[misc]
        format = library.pq.Format.BINARY
        oid = type_info.oid

        def dump(self, value: VectorBytes) -> bytes:
            return bytes(value)

    connection.adapters.register_dumper(VectorBytes, AsItIs)


def _refusal(problem: Exception, *, code: str, at: str) -> MeasureError:
    return MeasureError(f"PostgreSQL refuses: {first_line(problem)}", code=code, at=at)


def _word(name: str) -> str:
    """A name that is safe inside a statement."""
    if not _WORD.match(name):
        raise MeasureError(f"{name!r} is not the name of a PostgreSQL option", code="index-option", at="target")
    return name


def _value(value: JsonValue) -> str:
    """A number or word that is safe inside a statement."""
    text = _text(value)
    if not re.fullmatch(r"-?[A-Za-z0-9_.]+", text):
        raise MeasureError(f"{value!r} is not a value of an index option", code="index-option", at="target.index")
    return text


def _text(value: JsonValue) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)

"""Programs are found where systems put them; what is missing is told with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import UsageError
from assay.infra.processes.parts import library_path
from assay.infra.processes.setup import find_programs, how_to_install, missing


@pytest.fixture
def program(tmp_path):
    def make(path: str) -> Path:
        made = tmp_path / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("#!/bin/sh\n")
        made.chmod(0o755)
        return made

    return make


def found(tmp_path, *parts, environ=None, unpacked="none"):
    return find_programs(parts, tmp_path / unpacked, {"PATH": "", **(environ or {})}, tmp_path / "root")


def test_the_newest_postgresql_is_taken_and_ten_is_above_nine(tmp_path, program):
    for version in ("9", "10", "16"):
        for name in ("postgres", "initdb"):
            program(f"root/usr/lib/postgresql/{version}/bin/{name}")
    assert found(tmp_path, "postgresql") == {"postgresql": str(tmp_path / "root/usr/lib/postgresql/16/bin/postgres")}


def test_a_postgresql_that_cannot_make_a_database_is_none(tmp_path, program):
    program("root/usr/lib/postgresql/16/bin/postgres")
    assert found(tmp_path, "postgresql") == {}


def test_what_is_on_the_path_goes_first_and_links_are_followed(tmp_path, program):
    real = program("elsewhere/postgres")
    program("elsewhere/initdb")
    program("root/usr/lib/postgresql/16/bin/postgres")
    program("root/usr/lib/postgresql/16/bin/initdb")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/postgres").symlink_to(real)
    assert found(tmp_path, "postgresql", environ={"PATH": str(tmp_path / "bin")}) == {"postgresql": str(real)}


def test_redis_goes_by_its_other_name_too(tmp_path, program):
    assert found(tmp_path, "redis") == {}
    valkey = program("root/usr/bin/valkey-server")
    assert found(tmp_path, "redis") == {"redis": str(valkey)}
    redis = program("root/usr/bin/redis-server")
    assert found(tmp_path, "redis") == {"redis": str(redis)}


def test_a_variable_names_a_program_and_one_that_is_none_is_reported(tmp_path, program):
    own = program("own/redis")
    assert found(tmp_path, "redis", environ={"ASSAY_REDIS": str(own)}) == {"redis": str(own)}
    with pytest.raises(UsageError, match="ASSAY_REDIS") as wrong:
        found(tmp_path, "redis", environ={"ASSAY_REDIS": str(tmp_path / "nothing")})
    assert wrong.value.problem.code == "no-program"


def test_unpacked_programs_are_found_last_and_with_their_libraries(tmp_path, program):
    inner = program("unpacked/usr/bin/prometheus")
    library = tmp_path / "unpacked/usr/lib/x86_64-linux-gnu"
    library.mkdir(parents=True)
    assert found(tmp_path, "prometheus", unpacked="unpacked") == {"prometheus": str(inner)}
    assert str(library) in library_path(str(inner), tmp_path / "unpacked")["LD_LIBRARY_PATH"].split(":")
    outer = program("root/usr/bin/prometheus")
    assert found(tmp_path, "prometheus", unpacked="unpacked") == {"prometheus": str(outer)}
    assert library_path(str(outer), tmp_path / "unpacked") == {}


def test_all_that_is_missing_is_reported_at_once_with_what_to_do():
    problem = missing(["redis", "prometheus"], refused=False).problem
    assert problem.code == "missing-programs"
    assert "redis, prometheus" in problem.message
    assert "--without redis --without prometheus" in problem.try_
    assert how_to_install(["postgresql", "redis"], "darwin") == "brew install postgresql@17 redis"
    assert how_to_install(["redis", "prometheus"], "linux").startswith("apt-get install redis-server prometheus")

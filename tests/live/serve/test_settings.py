"""Settings: flags over the environment over a file, checked, and silent about secrets."""

import pytest

from assay.errors import UsageError
from assay.http import is_loopback
from assay.serve.settings import ServerSettings, read_settings


def test_flags_win_over_the_environment_and_that_over_the_file(write, monkeypatch):
    config = write("assay-server.toml", 'host = "10.0.0.1"\nport = 1\nlease_s = 30.0\n')
    monkeypatch.setenv("ASSAY_SERVER_PORT", "2")
    monkeypatch.setenv("ASSAY_SERVER_TRIES", "7")
    monkeypatch.setenv("ASSAY_SERVER_LEASE_S", "40")
    found = read_settings(config, lease_s=50.0, host=None)
    assert (found.host, found.port, found.tries, found.lease_s) == ("10.0.0.1", 2, 7, 50.0)


def test_a_yaml_file_does_too(write):
    found = read_settings(write("assay-server.yaml", "port: 9000\ncors_origins: [https://a, https://b]\n"))
    assert (found.port, found.cors_origins) == (9000, ("https://a", "https://b"))


def test_lists_in_the_environment_are_separated_by_commas(monkeypatch):
    monkeypatch.setenv("ASSAY_SERVER_CORS_ORIGINS", "https://a, https://b")
    assert ServerSettings().cors_origins == ("https://a", "https://b")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"port": 70000}, "port"),
        ({"tls_cert": "x.pem"}, "belong together"),
        ({"host": "0.0.0.0", "open": True}, "loopback only"),
        ({"heartbeat_s": 60.0, "lease_s": 60.0}, "shorter than lease_s"),
        ({"database_url": "mysql://a:hunter2@b/c"}, "not supported"),
        ({"database_url": "nonsense hunter2"}, "not a database URL"),
        ({"colour": "red"}, "not a setting"),
    ],
)
def test_what_cannot_work_is_refused_in_words(flags, said):
    with pytest.raises(UsageError, match=said) as refused:
        read_settings(None, **flags)
    assert "hunter2" not in str(refused.value)


def test_an_error_names_where_the_value_came_from(write, monkeypatch):
    config = write("s.toml", "tries = 0\n")
    monkeypatch.setenv("ASSAY_SERVER_LEASE_S", "-1")
    with pytest.raises(UsageError) as refused:
        read_settings(config, port=-1)
    told = {problem.message.split()[0].rstrip(":"): problem.at for problem in refused.value.problems}
    assert told == {"tries": str(config), "lease_s": "ASSAY_SERVER_LEASE_S", "port": "--port"}


def test_a_file_that_is_not_there_is_reported(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        read_settings(tmp_path / "none.toml")


def test_secrets_do_not_show():
    settings = ServerSettings(
        database_url="postgresql://u:hunter2@h/n", redis_url="redis://:hunter2@h", token="hunter2 hunter2"
    )
    assert "hunter2" not in repr(settings) + str(settings) + settings.model_dump_json() + settings.database_shown
    assert settings.database_shown == "postgresql://u:***@h/n"


def test_a_dotenv_file_of_whatever_folder_is_not_read(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("ASSAY_SERVER_PORT=1\n")
    monkeypatch.chdir(tmp_path)
    assert ServerSettings().port == 8080


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("localhost", True), ("::1", True), ("[::1]", True), ("0.0.0.0", False),
     ("10.0.0.1", False), ("localhost.evil.example", False), ("", False)],
)  # fmt: skip
def test_what_is_loopback(host, expected):
    assert is_loopback(host) == expected


@pytest.mark.parametrize(("given", "kept"), [("", ""), ("/", ""), ("assay", "/assay"), ("/a/b/", "/a/b")])
def test_the_root_path_has_one_slash_at_its_beginning(given, kept):
    assert ServerSettings(root_path=given).root_path == kept

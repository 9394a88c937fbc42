"""What a pool may say of its shards."""

import pytest

from ghapp.errors import ConfigurationError
from ghapp.settings import Settings
from tests.settings.lines import without_line


@pytest.fixture
def read(tmp_path):
    def read(rows, **environ):
        path = tmp_path / "ghapp.toml"
        path.write_text(f'[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\n{rows}')
        return Settings.read({"GHAPP_CONFIG": str(path), **environ})

    return read


def test_every_key_of_the_gate_is_taken(read):
    settings = read(
        """
        shard_label = "shard"
        shard_groups = { pink = 12, purple = 13 }
        shard_name = '^(?P<shard>\\w+)-'
        active_command = ["aws", "ssm", "get-parameter", "--name", "/runners/active"]
        active_env = ["AWS_REGION", "AWS_PROFILE"]
        min_online = 3
        settle_seconds = 60
        deploy_repository = "Acme/infra"
        """,
        AWS_REGION="eu-west-1",
        PATH="/usr/bin",
        SECRET="hush",
    )
    (pool,) = settings.pools
    assert pool.shard_groups == {"pink": 12, "purple": 13}
    assert pool.shard_name == r"^(?P<shard>\w+)-"
    assert pool.active_command[:2] == ("aws", "ssm")
    assert (pool.active_source, pool.min_online, pool.settle_seconds) == ("active_command", 3, 60.0)
    assert pool.deploy_repository == "Acme/infra"
    assert settings.command_env == {"AWS_REGION": "eu-west-1", "PATH": "/usr/bin"}
    assert "eu-west-1" not in repr(settings)


def test_without_any_of_them_a_pool_has_no_shards_and_queries_no_source(read):
    (pool,) = read("").pools
    assert (pool.active_source, pool.shard_groups, pool.min_online, pool.settle_seconds) == ("", {}, 1, None)


def test_a_url_may_say_it_instead(read):
    (pool,) = read('shard_label = "shard"\nactive_url = "http://127.0.0.1:9000/active"').pools
    assert pool.active_source == "active_url"


SHARDS = 'shard_label = "shard"\n'


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("shard_labels = ['x']", "[[pools]] linux shard_labels: unknown key; did you mean shard_label?"),
        (
            "shard_name = 'pink'",
            "[[pools]] linux shard_name: 'pink' is not valid; it takes a pattern with the one group",
        ),
        (
            "shard_name = '(?P<shard>a+)+'",
            "[[pools]] linux shard_name: '(?P<shard>a+)+' is not valid; it takes a pattern th",
        ),
        ("shard_groups = ['pink']", "[[pools]] linux shard_groups: ['pink'] is not valid; it takes a table of shards"),
        ("shard_groups = { pink = '12' }", "[[pools]] linux shard_groups: {'pink': '12'} is not valid"),
        ("shard_groups = { pink = 0 }", "[[pools]] linux shard_groups: {'pink': 0} is not valid"),
        ("shard_groups = { pink = true }", "[[pools]] linux shard_groups: {'pink': True} is not valid"),
        ("shard_groups = { 'p k' = 1 }", "[[pools]] linux shard_groups: {'p k': 1} is not valid"),
        ("shard_groups = { pink = 1, blue = 1 }", "[[pools]] linux shard_groups: two shards have the same group"),
        ("active_command = ['aws']", "[[pools]] linux active_command: needs shard_label, shard_groups or shard_name"),
        (
            SHARDS + "active_command = 'aws'",
            "[[pools]] linux active_command: 'aws' is not valid; it takes a list of strings",
        ),
        (SHARDS + "active_command = ['']", "[[pools]] linux active_command: it takes a program and its arguments"),
        (
            SHARDS + 'active_command = ["a\\u0000b"]',
            "[[pools]] linux active_command: it takes a program and its arguments",
        ),
        (SHARDS + "active_url = 'ssm://x'", "[[pools]] linux active_url: 'ssm://x' is not valid; it takes an http"),
        (
            SHARDS + "active_command = ['aws']\nactive_url = 'http://x'",
            "[[pools]] linux: active_command and active_url exclude each other",
        ),
        (
            SHARDS + "active_env = ['A-B']",
            "[[pools]] linux active_env: 'A-B' is not valid; it takes names of variables",
        ),
        (SHARDS + "active_env = ['GHAPP_PRIVATE_KEY']", "[[pools]] linux active_env: GHAPP_PRIVATE_KEY is a secret"),
        ("deploy_repository = 'acme/infra'", "[[pools]] linux deploy_repository: needs shard_label, shard_groups or"),
        (
            SHARDS + "deploy_repository = 'infra'",
            "[[pools]] linux deploy_repository: 'infra' is not valid; it takes owner",
        ),
        (SHARDS + "deploy_repository = 7", "[[pools]] linux deploy_repository: 7 is not valid; it takes a string"),
        (
            SHARDS + "deploy_repository = 'globex/infra'",
            "[[pools]] linux deploy_repository: 'globex/infra' is not valid; it takes a repository of acme",
        ),
        ("min_online = 0", "[[pools]] linux min_online: 0 is not valid"),
        ("settle_seconds = 0", "[[pools]] linux settle_seconds: 0 is not valid"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(read, rows, text):
    with pytest.raises(ConfigurationError) as refused:
        read(rows)
    assert without_line(str(refused.value)).startswith(text)


def test_a_controllers_secret_is_given_to_no_command(read):
    secret = "whsec_" + "A" * 32
    rows = f'{SHARDS}secret_env = "CONTROLLER_SECRET"\nactive_env = ["CONTROLLER_SECRET"]'
    with pytest.raises(ConfigurationError, match="CONTROLLER_SECRET is a secret"):
        read(rows, CONTROLLER_SECRET=secret)

"""`[[scopes]]`, the tables and pools of repositories and enterprises, and the tokens of enterprises."""

import pytest

from ghapp.installations.scope import ScopeRule
from ghapp.settings.scopes import ONE_KEY
from ghapp.settings.tables import PoolSettings
from tests.settings.test_settings import read, refusal

__all__ = ["read"]

API = '[[scopes]]\nrepository = "acme/api"\n'


def test_each_kind_of_scope_in_the_order_of_the_file_and_in_lower_case(read):
    rows = f'{API}[[scopes]]\nrepositories = "Acme/*"\n[[scopes]]\nenterprise = "Acme-Corp"\n'
    expected = (ScopeRule(repository="acme/api"), ScopeRule(repositories="acme/*"), ScopeRule(enterprise="acme-corp"))
    assert read(rows).scopes == expected
    assert read("").scopes == ()


@pytest.mark.parametrize(
    ("row", "right"),
    [
        ("", ONE_KEY),
        ('repository = "acme/api"\nenterprise = "acme"', ONE_KEY),
        ('repo = "acme/api"', "[[scopes]] 1 repo: unknown key; known are enterprise"),
        ('repository = "acme"', "owner/name"),
        ('repository = "acme/*"', "owner/name"),
        ('repository = "https://github.com/acme/api"', "owner/name"),
        ("repository = 7", "[[scopes]] 1 repository: 7 is not valid; it takes a string"),
        ('repositories = "acme/api"', "owner/*"),
        ('repositories = "*/*"', "owner/*"),
        ('enterprise = "enterprises/acme"', "an enterprise's slug"),
    ],
)
def test_a_row_that_names_no_scope_is_refused_in_one_line(read, row, right):
    message = refusal(read, f"[[scopes]]\n{row}\n")
    assert message.startswith("[[scopes]] 1")
    assert right in message


def test_a_table_in_place_of_an_array_and_a_scope_written_twice_are_refused(read):
    assert "must be an array of tables" in refusal(read, '[scopes]\nrepository = "acme/api"\n')
    assert "written twice" in refusal(read, API + API.replace("api", "API"))


@pytest.mark.parametrize(
    ("pattern", "name", "is_taken"),
    [
        ("acme/*", "api", True),
        ("acme/service-*", "Service-Pay", True),
        ("acme/service-*", "api", False),
        ("acme/*.js", "node_js", False),
    ],
)
def test_a_pattern_takes_names_in_any_case(pattern, name, is_taken):
    assert ScopeRule(repositories=pattern).takes(name) is is_taken


def test_pools_and_tables_of_a_repository_and_of_an_enterprise(read):
    pools = "".join(
        f'[[pools]]\norg = "{org}"\nname = "own"\nlabels = ["own"]\n' for org in ("acme/api", "enterprises/acme-corp")
    )
    tables = '[orgs."Acme/API".sweep]\ninterval_seconds = 30\n[orgs."enterprises/acme-corp".budget]\nshare = 0.3\n'
    settings = read(pools + tables)
    assert settings.pools_of("acme/api") == (PoolSettings("acme/api", "own", ("own",)),)
    assert settings.pools_of("acme") == ()
    assert settings.of("acme/api").sweep.interval_seconds == 30
    assert settings.of("acme").sweep.interval_seconds == 60
    assert settings.of("Enterprises/acme-corp").budget.share == 0.3


def test_a_repository_inherits_its_owner_s_tables_but_not_its_check_run(read):
    owner = '[remediation]\nmode = "act"\n[orgs.acme.remediation]\nmode = "dry-run"\n[orgs.acme.report]\nrepository = "acme/.github"\n'
    settings = read(owner + '[orgs."acme/api".sweep]\ninterval_seconds = 30\n')
    for repository in ("acme/api", "acme/web"):
        assert settings.of(repository).remediation.mode == "dry-run"
        assert settings.of(repository).report.repository is None
    assert settings.of("other/api").remediation.mode == "act"
    assert settings.of("enterprises/acme").remediation.mode == "act"


@pytest.mark.parametrize("owner", ["[report]", "[orgs.acme.report]", '[orgs."acme/web".report]'])
def test_two_fleets_with_one_check_run_are_refused(read, owner):
    tables = f'{owner}\nrepository = "acme/.github"\n[orgs."acme/api".report]\nrepository = "acme/{{}}"\n'
    assert read(tables.format("api")).of("acme/api").report.repository == "acme/api"
    assert "has another fleet's check run" in refusal(read, tables.format(".GitHub"))


def test_the_order_of_the_tables_does_not_matter_for_what_a_repository_inherits(read):
    settings = read('[orgs."acme/api".sweep]\ninterval_seconds = 30\n[orgs.acme.remediation]\nmode = "off"\n')
    assert settings.of("acme/api").remediation.mode == "off"


def test_what_names_a_repository_names_its_owner_and_an_enterprise_has_none(read):
    pool = '[[pools]]\norg = "acme/api"\nname = "own"\nlabels = ["own"]\n'
    assert read(pool).named == {"acme/api": 1, "acme": 1}
    tables = '[orgs."acme/api".sweep]\ninterval_seconds = 30\n[orgs."enterprises/x".sweep]\ninterval_seconds = 30\n'
    assert read(pool + tables).named == {"acme/api": 3, "acme": 3, "enterprises/x": 2}


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('[orgs."acme/api/x".sweep]\ninterval_seconds = 30\n', '[orgs."acme/api/x"]'),
        ('[orgs."acme/api".sweep]\ninterval = 30\n', '[orgs."acme/api".sweep] interval'),
        ('[orgs."acme/api".sweeps]\ninterval = 30\n', '[orgs."acme/api".sweeps]'),
    ],
)
def test_mistakes_of_a_repository_s_table_are_named_as_they_are_written(read, table, key):
    assert refusal(read, table).startswith(f"{key}: ")


def test_the_tokens_of_enterprises_are_read_from_either_variable_and_never_shown(read, tmp_path):
    settings = read("", GHAPP_ENTERPRISE_TOKEN="ghp_new, ghp_old")
    assert settings.enterprise_tokens == ("ghp_new", "ghp_old")
    assert "ghp_" not in repr(settings)
    path = tmp_path / "token"
    path.write_text("ghp_filed\n")
    path.chmod(0o600)
    assert read("", GHAPP_ENTERPRISE_TOKEN_FILE=str(path)).enterprise_tokens == ("ghp_filed",)
    path.chmod(0o604)
    assert "chmod 600" in refusal(read, GHAPP_ENTERPRISE_TOKEN_FILE=str(path))


def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(read):
    message = refusal(read, GHAPP_ENTERPRISE_TOKEN="ghp_sécret one")
    assert message.startswith("GHAPP_ENTERPRISE_TOKEN: it takes a classic token")
    assert "cret" not in message.partition("it takes")[2].replace("secret", "")


@pytest.mark.parametrize("taken", ["[report]", "[orgs.acme.report]", '[orgs."acme/web".report]'])
def test_an_enterprise_inherits_no_check_run_and_names_one_of_its_own(read, taken):
    tables = f'{taken}\nrepository = "acme/.github"\n'
    assert read(tables).of("enterprises/corp").report.repository is None
    own = tables + '[orgs."enterprises/corp".report]\nrepository = "acme/{}"\n'
    assert read(own.format("fleet")).of("enterprises/corp").report.repository == "acme/fleet"
    assert "has another fleet's check run" in refusal(read, own.format(".github"))

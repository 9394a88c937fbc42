"""Each wrong input gives one clear line that names the key and what would be right."""

from pathlib import Path
from typing import get_args

import pytest

from ghapp.credentials import AppCredentials
from ghapp.deaths.cause import Cause
from ghapp.deaths.rerun import RerunCause, RerunRules
from ghapp.errors import ConfigurationError
from ghapp.runners.verdict import Limits
from ghapp.settings import Policy, Settings
from tests.settings.lines import without_line
from tests.support.keys import private_key

DEFAULT_CAUSES = ("deleted-registration", "external-teardown", "vanished", "terminated")
PEM = private_key().strip()
CREDENTIALS = {"GHAPP_APP_ID": "7", "GHAPP_PRIVATE_KEY": PEM, "GHAPP_WEBHOOK_SECRET": "s"}
POOL = """
[[pools]]
org = "acme"
name = "linux"
labels = ["linux"]
replacer = "cloudevents"
url = "http://controller:9000/events"
secret_env = "CONTROLLER_SECRET"
"""
SECRET = {"CONTROLLER_SECRET": "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}


@pytest.fixture
def read(tmp_path):
    def read(toml="", **environ):
        path = tmp_path / "ghapp.toml"
        path.write_text(toml, "utf-8")
        return Settings.read({"GHAPP_CONFIG": str(path), **environ})

    return read


def refusal(read, toml="", **environ):
    with pytest.raises(ConfigurationError) as raised:
        read(toml, **environ)
    message = str(raised.value)
    assert "\n" not in message
    return without_line(message)


def test_nothing_set_is_the_contracts_defaults():
    settings = Settings.read({})
    assert settings.policy == Policy()
    assert settings.listen == ("127.0.0.1", 8000)
    assert (settings.api_url, settings.web_url) == ("https://api.github.com", "https://github.com")
    nothing = (settings.redis_url, settings.credentials, settings.public_url, settings.log_format, settings.loki_url)
    assert nothing == (None,) * 5


def test_an_empty_variable_is_one_that_is_not_set():
    names = ("GHAPP_CONFIG", "GHAPP_REDIS_URL", "GHAPP_LISTEN", "GHAPP_LOG_FORMAT", "GHAPP_APP_ID", "GHAPP_PUBLIC_URL")
    assert Settings.read(dict.fromkeys(names, "")) == Settings.read({})


def test_variables_of_others_are_none_of_our_business():
    assert Settings.read({"PATH": "/bin", "GITHUB_TOKEN": "x"}) == Settings.read({})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("GHAPP_REDIS_URI", "x", "GHAPP_REDIS_URI: unknown variable; did you mean GHAPP_REDIS_URL?"),
        ("GHAPP_REDIS_URL", "localhost:6379", "GHAPP_REDIS_URL: must begin with redis://"),
        (
            "GHAPP_GITHUB_API_URL",
            "api.github.com",
            "GHAPP_GITHUB_API_URL: 'api.github.com' is not valid; it takes an http",
        ),
        (
            "GHAPP_PUBLIC_URL",
            "https://me:hush@ghapp.example.com",
            "GHAPP_PUBLIC_URL: contains a user name or a password",
        ),
        ("GHAPP_GITHUB_WEB_URL", "https://me@ghes.example.com", "GHAPP_GITHUB_WEB_URL: contains a user name or"),
        ("GHAPP_REDIS_URL", "redis://r:port/0", "GHAPP_REDIS_URL: is not valid; it takes redis://USER:PASSWORD@HOST"),
        ("GHAPP_REDIS_URL", "redis://r:65536/0", "GHAPP_REDIS_URL: is not valid"),
        ("GHAPP_REDIS_URL", "redis://r:6379/main", "GHAPP_REDIS_URL: is not valid"),
        ("GHAPP_REDIS_URL", "rediss://[::1", "GHAPP_REDIS_URL: is not valid"),
        ("GHAPP_REDIS_URL", "redis://a..b/0", "GHAPP_REDIS_URL: is not valid"),
        ("GHAPP_REDIS_URL", "unix://", "GHAPP_REDIS_URL: is not valid"),
        ("GHAPP_REDIS_URL", "unix:///run/r.sock?db=x", "GHAPP_REDIS_URL: is not valid"),
        ("GHAPP_REDIS_URL", "redis://r?ssl_ca_certs=/ca.pem", "GHAPP_REDIS_URL: is not valid"),
        ("GHAPP_REDIS_URL", "rediss://r?ssl_ca_cert=/ca.pem", "GHAPP_REDIS_URL: is not valid"),
        ("GHAPP_GITHUB_API_URL", "http://[::1", "GHAPP_GITHUB_API_URL: 'http://[::1' is not valid"),
        ("GHAPP_PUBLIC_URL", "https://:443", "GHAPP_PUBLIC_URL: 'https://:443' is not valid"),
        ("GHAPP_PUBLIC_URL", "https://x:65536", "GHAPP_PUBLIC_URL: 'https://x:65536' is not valid"),
        ("GHAPP_PUBLIC_URL", "https://x:port", "GHAPP_PUBLIC_URL: 'https://x:port' is not valid"),
        (
            "GHAPP_GITHUB_WEB_URL",
            "https://ghe.example/foo",
            "GHAPP_GITHUB_WEB_URL: 'https://ghe.example/foo' is not valid; GitHub's pages have no path: https://ghe.example",
        ),
        ("GHAPP_GITHUB_WEB_URL", "ftp://x", "GHAPP_GITHUB_WEB_URL: 'ftp://x' is not valid"),
        ("GHAPP_PUBLIC_URL", "ghapp.acme.com", "GHAPP_PUBLIC_URL: 'ghapp.acme.com' is not valid"),
        ("GHAPP_LOKI_URL", "https://", "GHAPP_LOKI_URL: 'https:' is not valid"),
        ("GHAPP_LOG_FORMAT", "text", "GHAPP_LOG_FORMAT: 'text' is not valid; it takes json or console"),
        ("GHAPP_LISTEN", "8000", "GHAPP_LISTEN: '8000' is not valid; it takes host:port"),
        ("GHAPP_LISTEN", ":8000", "GHAPP_LISTEN: ':8000' is not valid"),
        ("GHAPP_LISTEN", "localhost:", "GHAPP_LISTEN: 'localhost:' is not valid"),
        ("GHAPP_LISTEN", "localhost:http", "GHAPP_LISTEN: 'localhost:http' is not valid"),
        ("GHAPP_LISTEN", "localhost:-1", "GHAPP_LISTEN: 'localhost:-1' is not valid"),
        ("GHAPP_LISTEN", "localhost:65536", "GHAPP_LISTEN: 'localhost:65536' is not valid"),
        ("GHAPP_LISTEN", f"localhost:{'9' * 5000}", "GHAPP_LISTEN: 'localhost:999"),
        ("GHAPP_LISTEN", "localhost:²", "GHAPP_LISTEN: 'localhost:²' is not valid"),
        ("GHAPP_LISTEN", "localhost:0", "GHAPP_LISTEN: 'localhost:0' is not valid; it takes host:port, like "),
        ("GHAPP_LISTEN", "localhost:00", "GHAPP_LISTEN: 'localhost:00' is not valid"),
        ("GHAPP_PUBLIC_URL", "https://x/?a=b", "GHAPP_PUBLIC_URL: 'https://x/?a=b' is not valid; paths are added"),
        ("GHAPP_PUBLIC_URL", "https://x/?", "GHAPP_PUBLIC_URL: 'https://x/?' is not valid; paths are added"),
        ("GHAPP_PUBLIC_URL", "https://x#a", "GHAPP_PUBLIC_URL: 'https://x#a' is not valid; paths are added"),
        ("GHAPP_PUBLIC_URL", "https://x y", "GHAPP_PUBLIC_URL: 'https://x y' is not valid; it takes an http"),
        ("GHAPP_PUBLIC_URL", " https://x", "GHAPP_PUBLIC_URL: ' https://x' is not valid; it takes an http"),
        ("GHAPP_PUBLIC_URL", "https://x\n", "GHAPP_PUBLIC_URL: 'https://x\\n' is not valid; it takes an http"),
        ("GHAPP_LOKI_URL", "http://x?tenant=a", "GHAPP_LOKI_URL: 'http://x?tenant=a' is not valid; paths are added"),
        ("GHAPP_STATE_DIR", "~/x", "GHAPP_STATE_DIR: '~/x' is not valid: only a shell replaces ~; write it out"),
        ("GHAPP_STATE_DIR", "/dev/null", "GHAPP_STATE_DIR: /dev/null is not a directory"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(read, name, value, text):
    assert refusal(read, **{name: value}).startswith(text)


@pytest.mark.parametrize(
    ("value", "listen"),
    [("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:65535", ("::1", 65535)), ("localhost:1", ("localhost", 1))],
)
def test_an_address_to_listen_on(read, value, listen):
    assert read(GHAPP_LISTEN=value).listen == listen


@pytest.mark.parametrize(
    "url",
    [
        "redis://r:6379/0",
        "redis://user:p%40ss@[::1]/",
        "rediss://r",
        "rediss://r:6380/1?ssl_ca_certs=/ca.pem&ssl_cert_reqs=required",
        "redis+sentinel://a:26379,b:26379/mymaster/0",
        "unix:///run/r.sock",
        "unix://user:pass@/run/r.sock?db=1",
    ],
)
def test_every_kind_of_redis_address_is_taken(read, url):
    assert read(GHAPP_REDIS_URL=url).redis_url == url


def test_a_password_in_a_wrong_redis_address_is_not_shown(read):
    assert "hunter2" not in refusal(read, GHAPP_REDIS_URL="redis://ghapp:hunter2@r:port/0")


@pytest.mark.parametrize("url", ["http://c", "https://user@c:9000/events?x=y", "http://[::1]:65535/"])
def test_every_kind_of_controllers_address_is_taken(read, url):
    assert read(pool(url=f"'{url}'")).pools[0].url == url


def test_a_slash_at_an_addresss_end_is_dropped(read):
    assert read(GHAPP_PUBLIC_URL="https://ghapp.acme.com/").public_url == "https://ghapp.acme.com"


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"GHAPP_CONFIG: cannot read .*none\.toml: No such file"):
        Settings.read({"GHAPP_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize("text", [b"\xff\xfe", "[sweep]\n".encode("utf-16"), "[sweep]\n".encode("utf-16-le")])
def test_a_file_that_is_no_text_is_refused(tmp_path, text):
    path = tmp_path / "ghapp.toml"
    path.write_bytes(text)
    with pytest.raises(ConfigurationError, match=r"GHAPP_CONFIG: .* is not UTF-8 text, perhaps UTF-16; save it as"):
        Settings.read({"GHAPP_CONFIG": str(path)})


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ("[sweep", "GHAPP_CONFIG: "),
        ("a = ", "GHAPP_CONFIG: "),
        ("[swep]\ninterval_seconds = 9", "[swep]: unknown table; did you mean sweep?"),
        ("[[pool]]\norg = 'acme'", "[pool]: unknown table; did you mean pools?"),
        ("[orgs.acme.swep]", "[orgs.acme.swep]: unknown table; did you mean sweep?"),
        ("[[orgs.acme.pools]]", "[orgs.acme.pools]: unknown table; "),
        ("sweep = 1", "[sweep]: must be a table"),
        ("orgs = 1", "[orgs]: must be a table"),
        ("[orgs]\nacme = 1", "[orgs.acme]: must be a table"),
        ("[pools]\norg = 'acme'", "[[pools]]: must be an array of tables"),
        ("pools = [1]", "[pools]: must be a table"),
        ("[sweep]\nintervall_seconds = 9", "[sweep] intervall_seconds: unknown key; did you mean interval_seconds?"),
        ("[report]\nzzz = 9", "[report] zzz: unknown key; known are repository"),
        ("[orgs.acme.fuse]\nflor = 9", "[orgs.acme.fuse] flor: unknown key; did you mean floor?"),
        ("[sweep]\ninterval_seconds = 0", "[sweep] interval_seconds: 0 is not valid; it takes 1 second or more"),
        ("[sweep]\ninterval_seconds = 0.999999", "[sweep] interval_seconds: 0.999999 is not valid"),
        ("[sweep]\ninterval_seconds = -1", "[sweep] interval_seconds: -1 is not valid"),
        ("[sweep]\ninterval_seconds = nan", "[sweep] interval_seconds: nan is not valid"),
        ("[sweep]\ninterval_seconds = inf", "[sweep] interval_seconds: inf is not valid"),
        ("[sweep]\ninterval_seconds = true", "[sweep] interval_seconds: True is not valid"),
        ("[sweep]\ninterval_seconds = '9'", "[sweep] interval_seconds: '9' is not valid"),
        (
            "[sweep]\ninterval_seconds = 301",
            "[evidence] stale_seconds: 300 is less than [sweep] interval_seconds, 301: each runner would be unknown",
        ),
        (
            "[orgs.acme.sweep]\ninterval_seconds = 301",
            "[orgs.acme.evidence] stale_seconds: 300 is less than [orgs.acme.sweep] interval_seconds, 301",
        ),
        ("[orgs.acme.evidence]\nstale_seconds = 0", "[orgs.acme.evidence] stale_seconds: 0 is not valid"),
        (
            "[sweep]\nconcurrency = 0",
            "[sweep] concurrency: 0 is not valid; it takes a whole number from 1 to 1,000,000",
        ),
        (
            "[sweep]\ninterval_seconds = '60'",
            "[sweep] interval_seconds: '60' is not valid; it takes 1 second or more, up to a year, without quotes",
        ),
        (
            "[sweep]\nconcurrency = '9'",
            "[sweep] concurrency: '9' is not valid; it takes a whole number from 1 to 1,000,000, without quotes",
        ),
        (
            "[fuse]\nfraction = '20%'",
            "[fuse] fraction: '20%' is not valid; it takes a fraction above 0 and up to 1, without quotes",
        ),
        ("[sweep]\nconcurrency = 1.5", "[sweep] concurrency: 1.5 is not valid"),
        ("[fuse]\nfloor = true", "[fuse] floor: True is not valid"),
        ("[fuse]\nfraction = 0", "[fuse] fraction: 0 is not valid; it takes a fraction above 0 and up to 1"),
        ("[fuse]\nfraction = 1.000001", "[fuse] fraction: 1.000001 is not valid"),
        ("[fuse]\nfraction = nan", "[fuse] fraction: nan is not valid"),
        ("[budget]\nshare = -0.5", "[budget] share: -0.5 is not valid"),
        ("[budget]\nshare = 50", "[budget] share: 50 is not valid"),
        ("[remediation]\nmode = 'on'", "[remediation] mode: 'on' is not valid; it takes one of act, dry-run, off"),
        ("[remediation]\nmode = []", "[remediation] mode: [] is not valid"),
        ("[leaks]\nowner_label = ''", "[leaks] owner_label: '' is not valid; it takes a string"),
        ("[leaks]\nrunner_name = 'host'", "[leaks] runner_name: 'host' is not valid; it takes pod"),
        ("[notify]\nevents = 'fuse'", "[notify] events: 'fuse' is not valid; it takes a list of strings"),
        ("[notify]\nevents = ['fuse', 'fire']", "[notify] events: 'fire' is not valid; it takes one of fuse, blind"),
        ("[report]\nrepository = 3", "[report] repository: 3 is not valid; it takes a string"),
        ("[report]\nrepository = 'acme'", "[report] repository: 'acme' is not valid; it takes owner/name"),
        ("[report]\nrepository = 'a/b/c'", "[report] repository: 'a/b/c' is not valid; it takes owner/name"),
        ("[report]\nrepository = '/b'", "[report] repository: '/b' is not valid; it takes owner/name"),
        ("[sweep]\ninterval_seconds = 31536001", "[sweep] interval_seconds: 31536001 is not valid; it takes 1 second"),
        ("[sweep]\nconcurrency = 1000001", "[sweep] concurrency: 1000001 is not valid"),
        (f"[sweep]\nconcurrency = {'9' * 400}", f"[sweep] concurrency: {'9' * 60}… is not valid"),
        (f"[sweep]\ninterval_seconds = {'9' * 400}", f"[sweep] interval_seconds: {'9' * 60}… is not valid"),
        ("[orgs.acme.sweeps]\n", "[orgs.acme.sweeps]: unknown table; did you mean sweep?"),
        ("[report]\nrepository = 'acme / b'", "[report] repository: 'acme / b' is not valid; it takes owner/name"),
        ("[orgs.'']", "[orgs.]: '' is not valid; it takes a string"),
        ("[orgs.'acme/a/b']", "[orgs.\"acme/a/b\"]: 'acme/a/b' is not valid; it takes a login, as in"),
        ("[orgs.acme.sweep]\n[orgs.Acme.fuse]", "[orgs.Acme]: defined twice, because GitHub ignores case"),
        (f"a = {'[' * 5000}", "GHAPP_CONFIG: "),
    ],
)
def test_a_wrong_table_is_refused_by_its_key(read, toml, text):
    assert refusal(read, toml).startswith(text)


@pytest.mark.parametrize("seconds", ["1", "1.0", "1.5", "86400"])
def test_every_second_takes_1_or_more_and_fractions_too(read, seconds):
    toml = f"[sweep]\ninterval_seconds = {seconds}\n[evidence]\nstale_seconds = 86400"
    assert read(toml).policy.sweep.interval_seconds == float(seconds)


@pytest.mark.parametrize("fraction", ["1", "1.0", "0.000001"])
def test_fractions_go_up_to_1(read, fraction):
    assert read(f"[fuse]\nfraction = {fraction}").policy.fuse.fraction == float(fraction)


def pool(**changes):
    row = {"org": "'acme'", "name": "'linux'", "labels": "['linux']", **changes}
    return "[[pools]]\n" + "\n".join(f"{key} = {value}" for key, value in row.items() if value is not None)


def test_a_pool_has_a_button_unless_it_says_otherwise(read):
    assert read(pool()).pools[0].rerun == RerunRules("button", DEFAULT_CAUSES, begun=False, per_hour=20)
    given = "{ mode = 'auto', causes = ['lost-communication'], begun = true, per_hour = 1 }"
    assert read(pool(rerun=given)).pools[0].rerun == RerunRules("auto", ("lost-communication",), begun=True, per_hour=1)


GHES = "https://ghes.example.com"


@pytest.mark.parametrize(
    ("api", "web", "found"),
    [
        ("", "", ("https://api.github.com", "https://github.com")),
        (f"{GHES}/api/v3", "", (f"{GHES}/api/v3", GHES)),
        ("", GHES, (f"{GHES}/api/v3", GHES)),
        ("https://api.acme.ghe.com", "", ("https://api.acme.ghe.com", "https://acme.ghe.com")),
        ("", "https://acme.ghe.com", ("https://api.acme.ghe.com", "https://acme.ghe.com")),
        ("", "https://GitHub.com", ("https://api.github.com", "https://GitHub.com")),
        ("https://API.GitHub.com", "", ("https://API.GitHub.com", "https://github.com")),
        ("https://internal.example/api/v3", GHES, ("https://internal.example/api/v3", GHES)),
        ("", f"{GHES}/", (f"{GHES}/api/v3", GHES)),
    ],
)
def test_one_address_of_github_follows_from_the_other(api, web, found):
    settings = Settings.read({"GHAPP_GITHUB_API_URL": api, "GHAPP_GITHUB_WEB_URL": web})
    assert (settings.api_url, settings.web_url) == found


@pytest.mark.parametrize(
    ("api", "web", "text"),
    [
        (GHES, "", f"GHAPP_GITHUB_API_URL: '{GHES}' is the address of GitHub's pages; its API is '{GHES}/api/v3'"),
        (f"{GHES}/api/v3", "https://github.com", "is the API of another GitHub than GHAPP_GITHUB_WEB_URL"),
        ("https://api.github.com", GHES, "is the API of another GitHub than GHAPP_GITHUB_WEB_URL"),
        ("https://api.acme.ghe.com", "https://other.ghe.com", "is the API of another GitHub"),
        ("https://github.com", "", "is the address of GitHub's pages; its API is 'https://api.github.com'"),
        ("https://me:hush@ghes.example.com/api/v3", "", "GHAPP_GITHUB_API_URL: contains a user name or a password"),
    ],
)
def test_addresses_of_two_githubs_are_refused(api, web, text):
    with pytest.raises(ConfigurationError) as caught:
        Settings.read({"GHAPP_GITHUB_API_URL": api, "GHAPP_GITHUB_WEB_URL": web})
    assert text in str(caught.value)
    assert "hush" not in str(caught.value)


def test_every_cause_but_those_without_a_fault_may_be_re_run():
    assert {*get_args(RerunCause)} == {each.value for each in Cause} - {"clean-exit", "unknown"}


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        (pool(org=None), "[[pools]] linux org: missing"),
        (pool(name=None), "[[pools]] 1 name: missing"),
        (pool(labels=None), '[[pools]] linux labels: missing; ["*"] takes every runner'),
        (pool(labels="[]"), '[[pools]] linux labels: empty; ["*"] takes every runner'),
        (pool(labels="['*', 'linux']"), '[[pools]] linux labels: "*" takes every runner, so it must be the only label'),
        (
            pool(org="'https://github.com/acme'"),
            "[[pools]] linux org: 'https://github.com/acme' is not valid; it takes",
        ),
        (pool(org="' acme'"), "[[pools]] linux org: ' acme' is not valid; it takes a login"),
        (pool(name="'*'"), "[[pools]] * name: '*' is not valid; it takes a name without a slash, and not *"),
        (pool(name="'a/b'"), "[[pools]] a/b name: 'a/b' is not valid"),
        (pool(name='"a\\tb"'), "[[pools]] a\tb name: 'a\\tb' is not valid"),
        (pool(label="['x']"), "[[pools]] linux label: unknown key; did you mean labels?"),
        (pool(rerun="'auto'"), "[[pools]] linux rerun: 'auto' is not valid; it takes a table such as { mode"),
        (
            pool(rerun="{ mode = 'on' }"),
            "[[pools]] linux rerun mode: 'on' is not valid; it takes one of off, button, auto",
        ),
        (
            pool(rerun="{ causes = ['clean-exit'] }"),
            "[[pools]] linux rerun causes: 'clean-exit' is not valid; it takes",
        ),
        (pool(rerun="{ begun = 1 }"), "[[pools]] linux rerun begun: 1 is not valid; it takes true or false"),
        (pool(rerun="{ attempts = 0 }"), "[[pools]] linux rerun attempts: 0 is not valid; it takes a whole number"),
        (pool(rerun="{ per_hour = 0 }"), "[[pools]] linux rerun per_hour: 0 is not valid; it takes a whole number"),
        (pool(rerun="{ cause = [] }"), "[[pools]] linux rerun cause: unknown key; did you mean causes?"),
        (pool(labels="'x'"), "[[pools]] linux labels: 'x' is not valid; it takes a list of strings"),
        (pool(labels="['x', 1]"), "[[pools]] linux labels: ['x', 1] is not valid"),
        (pool(replacer="'arc'"), "[[pools]] linux replacer: 'arc' needs namespace; add the one of its pods"),
        (pool(replacer="'pods'"), "[[pools]] linux replacer: 'pods' needs namespace"),
        (pool(namespace="'Runners'"), "[[pools]] linux namespace: 'Runners' is not valid; it takes the name of a Kube"),
        (pool(replacer="'helm'"), "[[pools]] linux replacer: 'helm' is not valid; it takes one of cloudevents"),
        (pool(replacer="'cloudevents'"), "[[pools]] linux replacer: 'cloudevents' needs url and secret_env"),
        (pool(replacer="'cloudevents'", url="'http://c'"), "[[pools]] linux replacer: 'cloudevents' needs"),
        (pool(url="'controller:9000'"), "[[pools]] linux url: 'controller:9000' is not valid; it takes an http"),
        (pool(url="'http://'"), "[[pools]] linux url: 'http://' is not valid; it takes an http"),
        (pool(url="'http://c:99999/'"), "[[pools]] linux url: 'http://c:99999/' is not valid"),
        (pool(url="'http://a..b'"), "[[pools]] linux url: 'http://a..b' is not valid"),
        (pool(url="'http://c:events'"), "[[pools]] linux url: 'http://c:events' is not valid"),
        (pool(replace_offline_after_seconds="0"), "[[pools]] linux replace_offline_after_seconds: 0 is not valid"),
        (pool(runner_name="true"), "[[pools]] linux runner_name: True is not valid; it takes pod"),
        (POOL, "[[pools]] linux secret_env: the variable CONTROLLER_SECRET is not set; it must contain"),
        (pool() + "\n" + pool(org="'ACME'"), "[[pools]] linux name: ACME has two pools named linux; rename one"),
        (
            pool(secret_env="'GHAPP_SECRET'"),
            "[[pools]] linux secret_env: GHAPP_SECRET is not valid: names with GHAPP_ are reserved",
        ),
    ],
)
def test_a_wrong_pool_is_refused_by_its_name_and_key(read, toml, text):
    assert refusal(read, toml).startswith(text)


@pytest.mark.parametrize("secret", ["hunter2", "whsec_", "whsec_hunter2!", "whsec_aHVudGVyMg=="])
def test_a_pools_secret_that_is_no_standard_webhooks_secret_is_refused_and_not_shown(read, secret):
    message = refusal(read, POOL, CONTROLLER_SECRET=secret)
    assert message.startswith("[[pools]] linux secret_env: the variable CONTROLLER_SECRET must contain")
    assert secret.removeprefix("whsec_") == "" or secret not in message


def test_a_secret_in_place_of_its_variable_is_refused_and_not_shown(read):
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLw"
    message = refusal(read, pool(replacer="'cloudevents'", url="'http://c'", secret_env=f"'{secret}'"))
    assert message == "[[pools]] linux secret_env: it takes the name of a variable, and not the secret itself"


def test_a_number_of_thousands_of_digits_is_no_toml(read):
    assert "is not TOML" in refusal(read, f"[sweep]\nconcurrency = {'9' * 5000}")


@pytest.mark.parametrize("name", ["linux-4vcpu", "gpu *", "size:xl", "größe"])
def test_a_pool_is_called_what_its_label_is(read, name):
    assert read(pool(name=f"'{name}'")).pools[0].name == name


def test_pools_are_read_in_order_and_found_by_org_in_any_case(read):
    settings = read(POOL + pool(name="'mac'") + "\n" + pool(org="'other'"), **SECRET)
    assert [each.name for each in settings.pools_of("ACME")] == ["linux", "mac"]
    assert settings.pool_secrets == SECRET


def test_an_org_inherits_the_tables_and_changes_only_what_it_names(read):
    settings = read("[evidence]\nconfirm_seconds = 20\n[orgs.Acme.evidence]\nstale_seconds = 100\n")
    assert settings.of("aCME").evidence == Limits(confirm_seconds=20.0, stale_seconds=100.0)
    assert settings.of("other").evidence == Limits(confirm_seconds=20.0)


def test_every_table_of_the_contract_is_taken(read):
    toml = """
    [sweep]
    interval_seconds = 60
    concurrency = 10
    [evidence]
    confirm_seconds = 30
    startup_seconds = 120
    offline_seconds = 300
    stale_seconds = 300
    [budget]
    share = 0.5
    [fuse]
    fraction = 0.2
    floor = 3
    window_seconds = 600
    first_batch = 3
    prove_seconds = 300
    cooldown_seconds = 300
    [remediation]
    mode = "dry-run"
    per_sweep = 25
    [deliveries]
    redeliver_seconds = 60
    [leaks]
    owner_label = "ghapp.dev/owner"
    grace_seconds = 300
    per_tick = 25
    mode = "dry-run"
    [queue]
    report = true
    explain_after_seconds = 300
    busy_after_seconds = 1800
    [notify]
    events = ["fuse", "blind", "unserved", "gate", "version"]
    """
    assert read(toml).policy == Policy()


def test_the_oldest_version_that_gets_jobs_is_a_version(read):
    settings = read('[versions]\nminimum = "2.336.0"\n[orgs.acme.versions]\nminimum = "2.99"\n')
    assert (settings.policy.versions.minimum, settings.of("acme").versions.minimum) == ("2.336.0", "2.99")
    for wrong in ('"2"', '"v2.336.0"', '"latest"', "2.336", '""', '"2.336.0-rc1"'):
        with pytest.raises(ConfigurationError, match=r"\[versions\] minimum"):
            read(f"[versions]\nminimum = {wrong}\n")


def test_runners_have_their_pods_names_where_leaks_or_a_pool_says_so(read):
    settings = read("[orgs.acme.leaks]\nrunner_name = 'pod'\n" + pool(runner_name="'pod'"))
    assert settings.of("acme").leaks.runner_name == settings.pools[0].runner_name == "pod"
    assert settings.of("globex").leaks.runner_name is None


def test_addresses_of_receivers_are_separated_by_the_commas_before_a_scheme(read):
    urls = "mailto://a:b@c?to=x,y, slack://T/U/V/#ops,json://127.0.0.1/"
    assert read(GHAPP_NOTIFY_URLS=urls).notify_urls == (
        "mailto://a:b@c?to=x,y",
        "slack://T/U/V/#ops",
        "json://127.0.0.1/",
    )
    assert read(GHAPP_NOTIFY_URLS="").notify_urls == ()
    assert "slack" not in repr(read(GHAPP_NOTIFY_URLS=urls))


# The App's credentials.


def test_all_three_credentials_make_the_app(read):
    settings = read(**{**CREDENTIALS, "GHAPP_WEBHOOK_SECRET": "new, old,"})
    assert settings.credentials == AppCredentials("7", PEM + "\n", ("new", "old"))


def test_a_key_in_one_line_has_its_line_ends_restored(read):
    settings = read(**{**CREDENTIALS, "GHAPP_PRIVATE_KEY": PEM.replace("\n", "\\n")})
    assert settings.credentials.private_key == PEM + "\n"


def test_a_webhook_secret_is_taken_to_the_letter(read):
    assert read(**{**CREDENTIALS, "GHAPP_WEBHOOK_SECRET": "a\\nb"}).credentials.webhook_secrets == ("a\\nb",)


def test_secrets_are_not_shown(read):
    shown = repr(read(POOL, **SECRET, **{**CREDENTIALS, "GHAPP_WEBHOOK_SECRET": "hunter2"}))
    credentials = repr(read(**{**CREDENTIALS, "GHAPP_WEBHOOK_SECRET": "hunter2"}).credentials)
    assert not [secret for secret in ("hunter2", "MIIE", "whsec_") if secret in shown + credentials]


@pytest.mark.parametrize("missing", CREDENTIALS)
def test_half_of_the_credentials_is_refused(read, missing):
    given = {name: value for name, value in CREDENTIALS.items() if name != missing}
    all_three = "set all of GHAPP_APP_ID, GHAPP_PRIVATE_KEY, GHAPP_WEBHOOK_SECRET, or none"
    assert refusal(read, **given) == f"{missing}: not set, though other App credentials are; {all_three}"


@pytest.mark.parametrize(
    ("given", "places"),
    [
        (
            {"GHAPP_APP_ID": "1 2", "GHAPP_PRIVATE_KEY": "x"},
            ["GHAPP_APP_ID", "GHAPP_PRIVATE_KEY", "GHAPP_WEBHOOK_SECRET"],
        ),
        ({"GHAPP_APP_ID": "7"}, ["GHAPP_PRIVATE_KEY and GHAPP_WEBHOOK_SECRET"]),
        ({**CREDENTIALS, "GHAPP_APP_ID": '"7"'}, ["GHAPP_APP_ID"]),
        (
            {**CREDENTIALS, "GHAPP_PRIVATE_KEY": "x", "GHAPP_CLIENT_ID": "y"},
            ["GHAPP_PRIVATE_KEY", "GHAPP_CLIENT_SECRET"],
        ),
        (
            {"GHAPP_PRIVATE_KEY": "x", "GHAPP_PRIVATE_KEY_FILE": "y"},
            ["GHAPP_PRIVATE_KEY", "GHAPP_APP_ID and GHAPP_WEBHOOK_SECRET"],
        ),
        (
            {"GHAPP_APP_ID": "7", "GHAPP_STATE_DIR": "~/x"},
            ["GHAPP_STATE_DIR", "GHAPP_PRIVATE_KEY and GHAPP_WEBHOOK_SECRET"],
        ),
    ],
    ids=[
        "two values and one missing",
        "two missing",
        "quotes",
        "key and client",
        "key and its file",
        "state directory",
    ],
)
def test_all_mistakes_of_credentials_are_named_at_once(given, places):
    with pytest.raises(ConfigurationError) as refused:
        Settings.read(given)
    assert [each.partition(":")[0] for each in refused.value.mistakes] == places


@pytest.mark.parametrize("secret", [",", " , "])
def test_a_webhook_secret_of_commas_alone_is_none(read, secret):
    assert refusal(read, **{**CREDENTIALS, "GHAPP_WEBHOOK_SECRET": secret}).startswith("GHAPP_WEBHOOK_SECRET: not set")


@pytest.mark.parametrize("key", ["/run/key.pem", "MIIE", "-----BEGIN CERTIFICATE-----\nMIIE"])
def test_a_key_that_is_no_pem_is_refused_and_not_shown(read, key):
    message = refusal(read, **{**CREDENTIALS, "GHAPP_PRIVATE_KEY": key})
    assert message.startswith("GHAPP_PRIVATE_KEY: not a PEM private key; give the .pem file")
    assert "MIIE" not in message


@pytest.fixture
def key_file(tmp_path) -> Path:
    path = tmp_path / "key.pem"
    path.write_text(PEM)
    path.chmod(0o600)
    return path


def in_file(path):
    return {"GHAPP_APP_ID": "7", "GHAPP_PRIVATE_KEY_FILE": str(path), "GHAPP_WEBHOOK_SECRET": "s"}


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640], ids=oct)
def test_a_key_in_a_file_that_not_everyone_can_read(read, key_file, mode):
    key_file.chmod(mode)
    assert read(**in_file(key_file)).credentials.private_key == PEM + "\n"


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o601], ids=oct)
def test_a_key_file_that_everyone_can_read_is_refused(read, key_file, mode):
    key_file.chmod(mode)
    message = refusal(read, **in_file(key_file))
    assert message == f"GHAPP_PRIVATE_KEY_FILE: {key_file} can be read by everyone; chmod 600 it"


def test_a_key_file_that_is_missing_is_refused(read, tmp_path):
    assert refusal(read, **in_file(tmp_path / "none")).startswith("GHAPP_PRIVATE_KEY_FILE: cannot read ")


def test_a_key_file_in_der_is_refused(read, key_file):
    key_file.write_bytes(b"\x30\x82\x04\xff")
    assert refusal(read, **in_file(key_file)).startswith("GHAPP_PRIVATE_KEY_FILE: ")


def test_a_key_and_a_key_file_together_are_refused(read, key_file):
    message = refusal(read, **CREDENTIALS, GHAPP_PRIVATE_KEY_FILE=str(key_file))
    assert message == "GHAPP_PRIVATE_KEY: set together with GHAPP_PRIVATE_KEY_FILE; set one of them"


def test_stale_seconds_may_equal_the_interval(read):
    assert read("[sweep]\ninterval_seconds = 300\n").policy.sweep.interval_seconds == 300


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "ghapp.toml"
    path.write_bytes(b"\xef\xbb\xbf[sweep]\ninterval_seconds = 30\n")
    assert Settings.read({"GHAPP_CONFIG": str(path)}).policy.sweep.interval_seconds == 30

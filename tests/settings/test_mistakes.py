"""One start names all mistakes of a configuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.errors import ConfigurationError
from ghapp.settings import Settings
from ghapp.settings.mistakes import MOST_NAMED
from tests.settings.lines import without_line
from tests.support.commands import ghapp

POOL = '[[pools]]\norg = "acme"\nname = "{name}"\n'
TABLES = {
    "[sweep]\nconcurrency = 0": "[sweep] concurrency: 0 is not valid; it takes a whole number from 1 to 1,000,000",
    "[swep]\nx = 1": "[swep]: unknown table; did you mean sweep?",
    '[fuse]\nfraction = "0.2"\nflor = 3': "[fuse] fraction: '0.2' is not valid; it takes a fraction above 0 and up to 1, "
    "without quotes\n[fuse] flor: unknown key; did you mean floor?",
    "budget = 3": "[budget]: must be a table",
    "[evidence]\nstale_seconds = 30": "[evidence] stale_seconds: 30 is less than [sweep] interval_seconds, 60: each "
    "runner would be unknown between two sweeps; it takes at least the interval",
    POOL.format(name="a"): '[[pools]] a labels: missing; ["*"] takes every runner',
    POOL.format(name="b")
    + "labels = 3\nrerun = { mode = 'x', per_hour = 0 }": "[[pools]] b labels: 3 is not valid; it "
    "takes a list of strings\n[[pools]] b rerun mode: 'x' is not valid; it takes one of off, button, auto\n[[pools]] b "
    "rerun per_hour: 0 is not valid; it takes a whole number from 1 to 1,000,000",
    POOL.format(name="c")
    + 'labels = ["c"]\nreplacer = "cloudevents"\nurl = "ftp://x"\nactive_command = ["x"]': "[[pools]] "
    "c replacer: 'cloudevents' needs url and secret_env; add both\n[[pools]] c url: 'ftp://x' is not valid; it takes an http:// or "
    "https:// address\n[[pools]] c active_command: needs shard_label, shard_groups or shard_name",
    '[[pools]]\nlabels = ["d"]': "[[pools]] {number} org: missing\n[[pools]] {number} name: missing",
    POOL.format(name="e")
    + 'labels = ["e"]\nsecret_env = "NOT_SET"': "[[pools]] e secret_env: the variable NOT_SET is not "
    'set; it must contain a Standard Webhooks secret, as from `echo "whsec_$(openssl rand -base64 24)"`',
    '[[pools]]\nname = "f"\nlabels = ["f"]\nurl = "ftp://y"': "[[pools]] f org: missing\n[[pools]] f url: 'ftp://y' is "
    "not valid; it takes an http:// or https:// address",
    "[orgs.acme.sweep]\ninterval_seconds = 600": "[orgs.acme.evidence] stale_seconds: {stale} is less than "
    "[orgs.acme.sweep] interval_seconds, 600: each runner would be unknown between two sweeps; it takes at least the "
    "interval",
    "[orgs.other]\nfuse = 3": "[orgs.other.fuse]: must be a table",
}


def mistakes(path, toml, **environ):
    file = path / "ghapp.toml"
    file.write_text(toml, "utf-8")
    with pytest.raises(ConfigurationError) as raised:
        Settings.read({"GHAPP_CONFIG": str(file), **environ})
    return raised.value.mistakes


@given(chosen=st.sets(st.sampled_from([*TABLES]), min_size=1))
def test_each_mistake_is_named_whatever_others_there_are(tmp_path_factory, chosen):
    ordered = [each for each in TABLES if each in chosen]  # keys of the root come before all tables
    ordered.sort(key=lambda each: each.startswith("["))
    pools = [each for each in ordered if each.startswith("[[pools]]")]
    number = 1 + next((at for at, each in enumerate(pools) if "name" not in each), 0)
    stale = "30" if any("stale_seconds = 30" in each for each in chosen) else "300"
    expected = {
        line.format(number=number, stale=stale) if "{" in line else line
        for each in chosen
        for line in TABLES[each].split("\n")
    }
    found = [without_line(each) for each in mistakes(tmp_path_factory.getbasetemp(), "\n".join(ordered))]
    assert (len(found), set(found)) == (len(expected), expected)


def test_an_organization_does_not_repeat_what_it_inherits(tmp_path):
    toml = "[evidence]\nstale_seconds = 30\n[orgs.a.fuse]\nfloor = 2\n[orgs.b.sweep]\nconcurrency = 2"
    assert len(mistakes(tmp_path, toml)) == 1


@pytest.mark.parametrize("more", [0, 1, 2])
def test_the_number_of_lines_is_bounded_and_the_others_are_counted(tmp_path, more):
    found = mistakes(tmp_path, "".join(f"[t{number}]\n" for number in range(MOST_NAMED + more)))
    assert len(found) == MOST_NAMED + (more > 0)
    assert [*found[MOST_NAMED:]] == [[], ["… and 1 more mistake"], ["… and 2 more mistakes"]][more]


def test_variables_and_a_file_that_is_no_toml_are_one_mistake_each(tmp_path):
    toml, listen, url = mistakes(tmp_path, "[sweep\n[x]", GHAPP_LISTEN="8000", GHAPP_URL="ftp://x")
    assert "is not TOML" in toml
    assert (listen.split(":")[0], url.split(":")[0]) == ("GHAPP_LISTEN", "GHAPP_URL")


def test_the_command_prints_a_line_for_each_and_exits_with_2(tmp_path):
    (tmp_path / "ghapp.toml").write_text('[sweep]\nconcurrency = 0\n[[pools]]\norg = "a"\nname = "x\\ny"\n', "utf-8")
    answer = ghapp("runners", GHAPP_CONFIG=str(tmp_path / "ghapp.toml"))
    assert (answer.returncode, answer.stdout) == (2, "")
    first, *others = answer.stderr.splitlines()
    assert first.startswith("ghapp: [sweep] concurrency: line 2: 0 is not valid")
    assert others
    assert all(line.startswith("ghapp: [[pools]] x y ") for line in others), "a name cannot begin a line of its own"


def test_pools_of_one_name_differ_in_their_lines(tmp_path):
    toml = "".join(f'[[pools]]\norg = "acme"\nname = "x"\nlabels = ["{each}"]\nlables = 1\n' for each in "ab")
    assert mistakes(tmp_path, toml) == (
        "[[pools]] x lables: line 5: unknown key; did you mean labels?",
        "[[pools]] x name: line 8: acme has two pools named x; rename one",
        "[[pools]] x lables: line 10: unknown key; did you mean labels?",
    )


@pytest.mark.parametrize(
    ("row", "mistake"),
    [
        ('org = "acme"\nname = "a"\nlabel = ["a"]', "[[pools]] a label: line 4: unknown key; did you mean labels?"),
        ('org = "acme"\nnam = "a"\nlabels = ["a"]', "[[pools]] 1 nam: line 3: unknown key; did you mean name?"),
        ('ogr = "acme"\nname = "a"\nlabels = ["a"]', "[[pools]] a ogr: line 2: unknown key; did you mean org?"),
        (
            'org = "acme"\nname = "a"\nlabels = ["a"]\nreplacer = "cloudevents"\nurl = "http://c"\nsecret_en = "X"',
            "[[pools]] a secret_en: line 7: unknown key; did you mean secret_env?",
        ),
        ('org = "acme"\nname = "a"\nlabels = []', '[[pools]] a labels: line 4: empty; ["*"] takes every runner'),
        ('org = "acme"\nname = "a"', '[[pools]] a labels: line 1: missing; ["*"] takes every runner'),
    ],
)
def test_one_mistake_of_a_pool_is_one_line(tmp_path, row, mistake):
    assert mistakes(tmp_path, f"[[pools]]\n{row}\n") == (mistake,)


def test_a_secret_that_is_not_set_has_its_line_also_where_two_organizations_have_a_pool_of_that_name(tmp_path):
    of = '[[pools]]\norg = "{}"\nname = "linux"\nlabels = ["linux"]\nsecret_env = "{}"\n'
    found = mistakes(tmp_path, of.format("acme", "ONE_SECRET") + of.format("globex", "OTHER_SECRET"))
    assert [each.partition(": the variable ")[0] for each in found] == [
        "[[pools]] linux secret_env: line 5",
        "[[pools]] linux secret_env: line 10",
    ]


def test_mistakes_are_in_the_order_of_the_lines_and_those_of_variables_follow(tmp_path):
    toml = (
        '[[pools]]\norg = "acme"\nname = "a b"\nlabels = 3\nrerun = { mode = "x" }\n\n'
        '[[pools]]\norg = "acme"\nlabels = ["b"]\nrerun = { per_hour = 0 }\n\n[sweep]\nconcurrency = 0\n'
    )
    found = mistakes(tmp_path, toml, GHAPP_LISTEN="8000")
    assert [each.partition(": ")[0] + ": " + each.split(": ")[1] for each in found[:-1]] == [
        "[[pools]] a b labels: line 4",
        "[[pools]] a b rerun mode: line 5",
        "[[pools]] 2 name: line 7",
        "[[pools]] 2 rerun per_hour: line 10",
        "[sweep] concurrency: line 13",
    ]
    assert found[-1].startswith("GHAPP_LISTEN: ")

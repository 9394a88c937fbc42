"""Where a report belongs, and whether it must be posted."""

import pytest

from ghapp.health.posting import Head, Next, Posted, Setback, Standing, newer, next_of, repository_of
from tests.health.builders import MICROSECOND, NOW

HERE = "acme/.github"
HEAD = Head(HERE, "main", "aaa", at=NOW - 500, confirmed_at=NOW)
OLD_HEAD = HEAD._replace(confirmed_at=NOW - 300 - MICROSECOND)
POSTED = Posted(HERE, "aaa", 7, "digest")


@pytest.mark.parametrize(
    ("standing", "step"),
    [
        (Standing(), Next.LOOK),
        (Standing(head=HEAD), Next.CREATE),
        (Standing(head=OLD_HEAD), Next.LOOK),
        (Standing(POSTED), Next.LOOK),
        (Standing(POSTED, HEAD), Next.NOTHING),
        (Standing(POSTED, OLD_HEAD), Next.NOTHING),
        (Standing(POSTED._replace(digest="other"), HEAD), Next.UPDATE),
        (Standing(POSTED._replace(digest="other"), HEAD._replace(confirmed_at=NOW - 300)), Next.UPDATE),
        (Standing(POSTED._replace(digest=""), HEAD), Next.UPDATE),
        (Standing(POSTED._replace(digest="other"), OLD_HEAD), Next.LOOK),
        (Standing(POSTED._replace(sha="bbb"), HEAD), Next.CREATE),
        (Standing(POSTED._replace(sha="bbb", digest="other"), HEAD), Next.CREATE),
        (Standing(None, HEAD, Setback(HERE, "refused", NOW + MICROSECOND)), Next.NOTHING),
        (Standing(None, HEAD, Setback(HERE, "refused", NOW)), Next.CREATE),
    ],
)
def test_what_comes_next_follows_from_what_is_known(standing, step):
    assert next_of(standing, "digest", NOW) is step


def test_what_is_known_of_another_repository_is_not_known():
    known = Standing(POSTED, HEAD, Setback(HERE, "refused", NOW))
    assert known.at(HERE) == known
    assert known.at("acme/fleet") == Standing()


LATER = HEAD._replace(sha="bbb", at=HEAD.at + 1, confirmed_at=NOW + 1)
EARLIER = HEAD._replace(sha="000", at=HEAD.at - MICROSECOND, confirmed_at=NOW + 1)


@pytest.mark.parametrize(
    ("known", "told", "head"),
    [
        (None, EARLIER, EARLIER),
        (HEAD, LATER, LATER),
        (HEAD, HEAD._replace(confirmed_at=NOW + 1), HEAD._replace(confirmed_at=NOW + 1)),
        (HEAD, EARLIER, HEAD._replace(confirmed_at=NOW + 1)),
        (LATER, HEAD, LATER),
        (HEAD, EARLIER._replace(branch="trunk"), EARLIER._replace(branch="trunk")),
        (HEAD, EARLIER._replace(repository="acme/fleet"), EARLIER._replace(repository="acme/fleet")),
    ],
)
def test_the_newest_head_stays_whatever_comes_late(known, told, head):
    assert newer(known, told) == head


@pytest.mark.parametrize(
    ("configured", "repository"),
    [
        (None, None),
        ("acme/.github", "acme/.github"),
        ("ACME/.github", "ACME/.github"),
        ("globex/.github", None),
        ("acme", None),
        ("acme/", None),
    ],
)
def test_an_org_reports_to_a_repository_of_its_own_alone(configured, repository):
    assert repository_of(configured, "Acme") == repository

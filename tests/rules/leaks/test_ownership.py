"""Which organization may judge a pod of a namespace that several share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.leaks.runner_activity import is_ours


@pytest.mark.parametrize(
    ("here", "others", "ours"),
    [
        (set(), [], True),
        ({"a"}, [set()], True),
        ({"runner-of-a"}, [{"b"}], True),
        (set(), [set()], False),
        (set(), [{"a"}], False),
        ({"a"}, [{"runner-of-a"}], False),
        ({"a"}, [set(), {"a"}], False),
    ],
    ids=[
        "a namespace with one organization",
        "known here",
        "known by its runner's name",
        "known nowhere",
        "known elsewhere",
        "known to two by different names",
        "known to two of three",
    ],
)
def test_a_pod_belongs_to_the_organization_that_knows_it(here, others, ours):
    assert is_ours({"a", "runner-of-a"}, here, others) is ours


names = st.sets(st.sampled_from("abcd"))


@given(names.filter(bool), st.lists(names, min_size=2, max_size=4))
def test_a_pod_never_belongs_to_two_organizations(pod, orgs):
    judges = [is_ours(pod, here, orgs[:index] + orgs[index + 1 :]) for index, here in enumerate(orgs)]
    assert sum(judges) <= 1

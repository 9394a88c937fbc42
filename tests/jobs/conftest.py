"""Jobs are tried in the stories' house."""

from tests.stories.conftest import story  # noqa: F401 - a fixture

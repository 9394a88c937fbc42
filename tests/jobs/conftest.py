"""The jobs' tests use the fixtures of the stories."""

from tests.stories.conftest import story  # noqa: F401 - a fixture

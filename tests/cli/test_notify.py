"""`ghapp notify`, as a process."""

from tests.sandbox.receivers import Receiver
from tests.support import commands


def notify(urls):
    return commands.ghapp("notify", GHAPP_NOTIFY_URLS=urls)


def test_each_address_gets_a_message_and_the_command_says_which_accepted_it():
    with Receiver(status=200) as good, Receiver(status=500) as bad:
        urls = ", ".join(each.url.replace("http://", "json://user:secret@") for each in (good, bad))
        done = notify(urls)
        assert [each.payload["title"] for each in good.wait(1)] == ["ghapp: test"]
    assert done.stdout == "json://…: accepted\njson://…: refused the notification, or did not answer\n"
    assert done.returncode == 1
    assert "secret" not in done.stdout + done.stderr


def test_without_addresses_the_command_names_the_variable():
    done = notify("")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("ghapp: GHAPP_NOTIFY_URLS: not set")


def test_an_invalid_address_is_reported_by_its_number_and_scheme():
    done = notify("json://127.0.0.1/,nonsense://secret")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("ghapp: GHAPP_NOTIFY_URLS: address 2 (nonsense://…) is not valid")

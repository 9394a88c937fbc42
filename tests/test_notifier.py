"""What real Apprise hands to each kind of receiver of a message that is full of names of outsiders."""

from __future__ import annotations

import email
import email.policy
import json
import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import requests

from ghapp.notifications import texts as notification
from ghapp.notifications.conditions import Change, Topic
from ghapp.notifications.texts import message
from ghapp.notifier import Notifier
from tests.support.nasty_names import GFM, NASTY, not_seen, tags

AT = 1_790_000_000.0
PAGE = "https://ghapp.example/orgs/acme/jobs"

HTTP = {
    "Slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general",
    "Slack, in its Markdown": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general?format=markdown",
    "Discord": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
    "Discord, in an embed": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js?format=markdown",
    "Teams": "workflows://prod-1.logic.azure.com:443/643e69f83c8944/4rkVpQyxZ1a2b3",
    "Mattermost": "mmost://mattermost.example/3ccdd113474722377935511fc85d3dd4",
    "Telegram": "tgram://123456789:abcdefg_hijklmnop/12315544/",
}
MAIL = {
    "as text": "mailto://user:pass@example.com?to=a@example.com",
    "as HTML": "mailto://user:pass@example.com?to=a@example.com&format=html",
}


ACCEPTED = SimpleNamespace(status_code=200, content=b"ok", text="ok", headers={})


def texts(value):
    """Each text in a JSON document."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in texts(each)]
    return (
        [text for each in value for text in texts(each)]
        if isinstance(value, list)
        else [value] * isinstance(value, str)
    )


def full_of(names):
    """A message whose pool and labels are all these names."""
    return message("acme", Change(Topic.UNSERVED, names[0], "open", "", AT, AT, 3, "; ".join(names)), link=PAGE)


@pytest.fixture
def nasty(monkeypatch):
    monkeypatch.setattr(notification, "LONGEST_LABELS", 5000)
    return full_of(NASTY[:-1])


async def sent_by(monkeypatch, address, found):
    bodies = []

    def post(*_args, data=None, **more):
        bodies.append(data or more.get("json"))
        return ACCEPTED

    for name in ("post", "request"):
        monkeypatch.setattr(requests, name, post)
    notifier = Notifier([address])
    await notifier.send(notifier.receivers[0], *found)
    (body,) = bodies
    return json.loads(body) if isinstance(body, str | bytes) else body


@pytest.mark.parametrize("address", HTTP.values(), ids=HTTP)
async def test_no_name_pings_links_or_formats_anything(monkeypatch, nasty, address):
    plain = await sent_by(monkeypatch, address, full_of(["linux"]))
    body = await sent_by(monkeypatch, address, nasty)
    ours = {*texts(plain)}
    theirs = [text for text in texts(body) if text not in ours]
    assert theirs
    for text in theirs:
        assert not_seen(text, "\r\n") == {}
        assert not re.findall(
            r"[@<>|`*~](?!/?b>)", text.replace("<b>", "").replace("</b>", "").replace("`ghapp jobs --unserved`", "")
        )
        assert re.findall(r"\S*://\S*", text) in ([], [PAGE])
        assert not re.search(r"\b(?:www|evil)\.", text)
    assert body.keys() == plain.keys(), "no field of mentions, and no other"
    assert tags(json.dumps(body)) == tags(json.dumps(plain))
    assert _kinds(theirs) <= {"text", "softbreak", "code_inline", "html_inline", "text_special"}


def _kinds(several):
    return {child.type for text in several for token in GFM.parse(text) for child in token.children or ()}


@pytest.mark.parametrize("address", MAIL.values(), ids=MAIL)
async def test_an_e_mail_has_our_headers_and_text_in_each_part(monkeypatch, nasty, address):
    mails = []
    connection = SimpleNamespace(sendmail=lambda _sender, _to, mail: mails.append(mail) or True)
    monkeypatch.setattr("apprise.plugins.email.base.AppriseSMTPController", lambda **_: nullcontext(connection))
    notifier = Notifier([address])
    found = nasty._replace(title=full_of([NASTY[7]]).title)
    await notifier.send(notifier.receivers[0], *found)
    mail = email.message_from_string(mails[0], policy=email.policy.default)
    assert mail.get_all("Subject") == [found.title]
    assert [each for each in mail if each.lower() in ("bcc", "reply-to", "sender")] == []
    parts = [each for each in mail.walk() if not each.is_multipart()]
    assert parts
    for part in parts:
        text = part.get_content()
        assert not_seen(text) == {}
        assert {tag for tag, *_ in tags(text)} <= {"html", "head", "title", "body", "br", "p"}
        assert not re.search(r"\b(?:www|evil)\.", text)

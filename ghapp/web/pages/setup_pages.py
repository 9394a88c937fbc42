"""What /setup says, as HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from ghapp.web.pages.layout import page

STEPS = ("Step 1 of 2", "Step 2 of 2", "All done")


def begin(manifest: Mapping[str, Any], github: str, refused: str = "") -> str:
    """The one button that creates the App.

    Args:
        manifest: what it will be created from; goes to GitHub with the form.
        github: GitHub's web address.
        refused: what was entered for an organization, and is no organization's name.
    """
    permissions = "".join(
        f"<tr><td>{escape(name.replace('_', ' ').capitalize())}</td><td>{escape(level)}</td></tr>"
        for name, level in manifest["default_permissions"].items()
    )
    host = github.partition("://")[2]
    complaint = f"That is no organization's name; it is what follows {host}/ in its address."
    wrong = f'<p class="warn" role="alert">{escape(complaint)}</p>' if refused else ""
    body = (
        "<p>ghapp works as a GitHub App of your own. GitHub shows you what it asks for, creates it, and sends you "
        "back here; its key and secrets are then kept on this machine, and nobody is shown them.</p>"
        f"{'' if manifest['hook_attributes']['active'] else _no_deliveries()}"
        f'<form method="post" action="setup">{wrong}'
        '<label for="organization">Organization whose runners are to be watched</label>'
        '<input id="organization" name="organization" placeholder="acme" maxlength="100" '
        f'value="{escape(refused)}" autocapitalize="off" '
        'autocomplete="off" spellcheck="false" aria-describedby="hint">'
        '<p class="soft" id="hint">You must be an owner of it. Left empty, the App belongs to your own account, and '
        "can be installed on that account alone.</p>"
        f'<input type="hidden" name="manifest" value="{escape(json.dumps(manifest))}">'
        f'<button class="go">Create the App on {escape(host)}</button></form>'
        f'<h2>What it may do</h2><table class="levels">{permissions}</table>'
        '<p class="soft">No code is read, and nothing but runners and its own check runs is written.</p>'
    )
    return page("Create your GitHub App", body, beside=STEPS[0])


def _no_deliveries() -> str:
    return (
        '<div class="warn"><p><b>GitHub cannot reach this address, so it will send no webhooks.</b></p>'
        "<p>The App can be created all the same: sweeps find lost runners without them, a little later. To have them, "
        "stop ghapp, set <code>GHAPP_PUBLIC_URL=https://…</code> to where the Internet reaches it, and start it "
        "again; or enter the address in the App's settings later.</p></div>"
    )


def done(install_url: str | None) -> str:
    """The App exists; on to its installation."""
    if install_url is None:
        body = (
            "<p>This ghapp was given its App's credentials when it was started. There is nothing to set up.</p>"
            '<p class="soft">To watch one more organization, install the App there, from its page on GitHub.</p>'
        )
        return page("ghapp has its App", body)
    body = (
        "<p>Its key and secrets are kept, and ghapp is at work: workers and clock are starting by themselves.</p>"
        "<p>The App sees nothing until it is installed. GitHub asks you where.</p>"
        f'<a class="go" href="{escape(install_url)}">Install the App</a>'
        '<p class="soft">All repositories or a few: for an organization\'s runners it makes no difference. '
        "For the check run, include the repository it is to be posted in.</p>"
    )
    return page("The App is created", body, beside=STEPS[1])


def installed(action: str) -> str:
    """What happens now, after GitHub's `setup_action`."""
    if action == "request":
        body = (
            "<p>An owner of the organization has been asked to approve the App. Once that is done, ghapp begins by "
            "itself; there is nothing more to do here.</p>"
        )
        return page("Waiting for an owner's approval", body, beside=STEPS[1])
    body = (
        "<p>You can close this page. This happens now, by itself:</p><ol>"
        "<li>In a moment, the organization's runners are listed for the first time.</li>"
        "<li>From then on they are looked at again and again, within a share of the App's hourly limit.</li>"
        "<li>A runner whose registration is gone is looked for twice more before anything is done.</li>"
        "<li>It is then replaced, in pools that are configured to; the others are only reported.</li></ol>"
        "<p>See them in the terminal in which ghapp runs, by <code>ghapp runners</code>, or through the "
        '<a href="../docs">HTTP API</a>.</p>'
    )
    return page("ghapp is installed", body, beside=STEPS[2])


def key_needed(*, wrong: bool) -> str:
    """For whoever comes from another machine."""
    complaint = '<p class="warn" role="alert">That is not the key.</p>' if wrong else ""
    body = (
        "<p>From another machine, or through a proxy, setting up takes the key that <code>ghapp up</code> printed in "
        f"its terminal.</p>{complaint}"
        '<form method="get" action="setup"><label for="key">Key</label>'
        '<input id="key" name="key" required autocomplete="off" spellcheck="false">'
        '<button class="go">Go on</button></form>'
    )
    return page("This ghapp is not set up yet", body)


def failed(title: str, said: str, *, again: bool = False) -> str:
    """What went wrong, and the way on: the same request again, or a new beginning."""
    way = '<a class="go" href="">Try again</a>' if again else '<a class="go" href="../setup">Start again</a>'
    return page(title, f"<p>{escape(said)}</p>{way}")

"""A headless browser: follows redirects, keeps cookies and submits forms, nothing else."""

from __future__ import annotations

from html.parser import HTMLParser

import httpx


class _Page(HTMLParser):
    """A page's forms and links, each by the text of its button or link."""

    def __init__(self, html):
        super().__init__()
        self.links, self.forms, self.text = [], [], ""
        self._form, self._said, self._href = None, None, None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "form":
            self._form = {"action": attributes.get("action", ""), "method": attributes.get("method", "get")}
            self._form["fields"] = {}
        elif tag == "input" and self._form is not None and attributes.get("name"):
            self._form["fields"][attributes["name"]] = attributes.get("value", "")
        elif tag in ("button", "a"):
            self._said, self._href = "", attributes.get("href")

    def handle_data(self, text):
        self.text += text
        if self._said is not None:
            self._said += text

    def handle_endtag(self, tag):
        if tag == "button" and self._form is not None:
            self.forms.append((self._said, self._form))
        elif tag == "a":
            self.links.append((self._said, self._href))
        elif tag == "form":
            self._form = None
        if tag in ("button", "a"):
            self._said = None


class Browser:
    """`answer` is the page that is shown."""

    answer: httpx.Response

    def __init__(self, client: httpx.Client):
        self._client = client

    @property
    def text(self) -> str:
        """All of the page, as it came."""
        return self.answer.text

    @property
    def url(self) -> httpx.URL:
        """The address bar."""
        return self.answer.url

    def open(self, url: str) -> httpx.Response:
        """Typed into the address bar."""
        self.answer = self._client.get(url, follow_redirects=True)
        return self.answer

    def click(self, expected: str) -> httpx.Response:
        """A link."""
        (href,) = [href for text, href in _Page(self.text).links if expected in text]
        return self.open(str(self.url.join(href)))

    def press(self, expected: str, **fields: str) -> httpx.Response:
        """A form's button, with these fields filled in."""
        (form,) = [form for text, form in _Page(self.text).forms if expected in text]
        assert fields.keys() <= form["fields"].keys()
        target, values = self.url.join(form["action"]), {**form["fields"], **fields}
        kind = {"data": values} if form["method"] == "post" else {"params": values}
        self.answer = self._client.request(form["method"].upper(), target, follow_redirects=True, **kind)
        return self.answer

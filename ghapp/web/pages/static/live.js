// Refreshes the part of a page that is marked `data-live` while the page is visible; htmx fetches and swaps it.
// The address, the target and the swap are attributes of that element; without this script the page is only not live.
(() => {
  "use strict";
  const wait = 1000;
  // A click is a press and a release of the same element: while a button of the mouse is down, no element is replaced.
  let pressed = false;
  const release = () => window.setTimeout(() => { pressed = false; }); // the click comes right after it
  document.addEventListener("pointerdown", (event) => {
    pressed = event.button === 0; // a menu may take the release of the others, and no page may stop being live for that
    window.setTimeout(release, 5000);
  });
  ["pointerup", "pointercancel", "dragend"].forEach((each) => document.addEventListener(each, release));
  const held = () => {
    const live = document.querySelector("[data-live]");
    // A person who selects text, or whose keyboard focus is within the part, must not lose either.
    const selection = document.getSelection();
    return !live || leaving || pressed || document.hidden || (selection && !selection.isCollapsed) ||
      (live.contains(document.activeElement) && document.activeElement.matches("input, select, textarea"));
  };
  // The result of a button is shown once: an address that is reloaded, kept or passed on does not repeat it.
  const forget = (...names) => {
    const address = new URL(window.location);
    names.forEach((each) => address.searchParams.delete(each));
    if (address.href !== window.location.href) window.history.replaceState(null, "", address);
  };
  if (document.querySelector("#outcome")) forget("done"); // the rest, which has the outcome, when that is known
  else forget("done", "press");
  const known = 286;
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt?.id === "outcome" && event.detail.xhr.status === known) forget("press");
  });
  let failed = 0;
  // A form was sent, and its answer is another page: a refresh that is refused after a sign-out must not lead elsewhere.
  // A page that is still here after half a minute, or again, is live.
  let leaving = false;
  const stay = () => { leaving = false; };
  document.addEventListener("submit", () => { leaving = true; window.setTimeout(stay, 30000); });
  window.addEventListener("pageshow", stay);
  document.addEventListener("htmx:beforeOnLoad", (event) => { if (leaving) event.preventDefault(); });
  const tick = () => {
    if (!held()) window.htmx.trigger("[data-live]", "refresh");
    window.setTimeout(tick, wait * Math.min(2 ** failed, 30));
  };
  const state = (text) => {
    const place = document.querySelector("[data-live-state]");
    if (place && place.textContent !== text) place.textContent = text;
  };
  // The banner of a button asks for its outcome by itself; what follows is about the live part alone.
  const isLive = (event) => event.detail?.elt?.matches("[data-live]");
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!isLive(event)) return;
    failed = event.detail.successful ? 0 : failed + 1;
    state(failed ? "Not live: the server does not answer. Trying again." : "Live");
  });
  document.addEventListener("visibilitychange", () => { if (!held()) window.htmx.trigger("[data-live]", "refresh"); });
  // Focus stays where it was when the link or button under it is replaced by its successor.
  const copied = (each) => each.matches(".copy") && each.previousElementSibling.textContent;
  const name = (each) => each.id || each.getAttribute("href") || copied(each) || "";
  let focused = "";
  let unfolded = [];
  let shown = "";
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!isLive(event)) return;
    if (pressed || event.detail.xhr.responseText === shown) event.detail.shouldSwap = false;
    if (pressed) return;
    shown = event.detail.xhr.responseText;
    const at = document.activeElement;
    unfolded = [...document.querySelectorAll("[data-live] details[open] > summary[id]")].map((each) => each.id);
    focused = at && at.closest("[data-live]") ? name(at) : "";
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (!isLive(event)) return;
    unfolded.forEach((each) => document.getElementById(each)?.parentElement.setAttribute("open", ""));
    if (!focused) return;
    const live = document.querySelector("[data-live]");
    const same = [...live.querySelectorAll("a, button, summary")].find((each) => name(each) === focused);
    if (same) same.focus({ preventScroll: true });
  });
  if (document.querySelector("[data-live]")) { state("Live"); window.setTimeout(tick, wait); }
})();

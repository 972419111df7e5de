// Updates the page after an event.
//
// The WebSocket reports only that an event happened. The page is then fetched from its own address, so the server renders
// it in one way. Without a connection the page is fetched every two seconds.
"use strict";

(() => {
  const POLL_MS = 2000;
  const DEBOUNCE_MS = 150;
  const RETRY_MS = [1000, 2000, 5000, 10000];
  const LEAVING_MS = 5000;
  const POLLING = "Updated every two seconds.";

  const live = () => document.getElementById("live");
  const state = document.getElementById("live-state");
  if (!live() || !state || !window.htmx) return;

  let connected = false;
  let failures = 0;
  let planned = null;
  let missed = false;

  const showState = (text) => {
    if (state.textContent === text) return;
    state.textContent = text;
  };

  // An update does not interrupt a user who types or presses a button.
  let pressed = false;
  addEventListener("pointerdown", () => (pressed = true), true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (pressed = false), true);
  const typing = () => {
    const fields = [...live().querySelectorAll("input:not([type=hidden]), textarea, select")];
    return fields.some((field) => field === document.activeElement || field.value !== field.defaultValue);
  };

  // A page that is being left is not fetched: after a logout, the request would be refused. The page stays if the new
  // address is a download.
  let leaving = 0;
  addEventListener("beforeunload", () => (leaving = Date.now()));

  const update = () => {
    planned = null;
    if (document.hidden || !live() || Date.now() - leaving < LEAVING_MS) return;
    missed = typing();
    if (missed) showState("Not updated while you type.");
    else htmx.trigger(document.body, "changed");
  };

  // Several events within the interval are one update.
  const changed = () => {
    planned ??= setTimeout(update, DEBOUNCE_MS);
  };

  const listen = () => {
    const address = new URL(live().dataset.stream, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    socket.addEventListener("open", () => {
      connected = true;
      failures = 0;
      showState("Live.");
      changed();
    });
    socket.addEventListener("message", changed);
    socket.addEventListener("close", () => {
      connected = false;
      showState(POLLING);
      setTimeout(listen, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
      failures += 1;
    });
  };

  setInterval(() => {
    if (!connected || missed) changed();
  }, POLL_MS);
  document.addEventListener("visibilitychange", changed);

  // An update keeps open details and the focus.
  const FOCUSABLE = "a, button, input, select, textarea, summary, [tabindex]";
  let opened = [];
  let focused = -1;
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (pressed || typing()) {
      event.detail.shouldSwap = false;
      missed = true;
      return;
    }
    opened = [...live().querySelectorAll("details[open][id]")].map((details) => details.id);
    focused = [...live().querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    live()?.querySelectorAll(FOCUSABLE)[focused]?.focus({ preventScroll: true });
    // A page without `hx-get` is final and is not fetched again.
    const final = !live()?.hasAttribute("hx-get");
    showState(final ? "" : connected ? "Live." : POLLING);
  });

  if (live().dataset.stream) listen();
  else showState(POLLING);
})();

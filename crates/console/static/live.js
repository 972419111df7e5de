// Fetches the page again when something has happened. Without it a page is as good as its last visit.
//
// The server tells over a WebSocket that something happened, and not what: the page is fetched by its own address,
// so there is one way to show things. While there is no connection, it is fetched every two seconds.
"use strict";

(() => {
  const EVERY_MS = 2000;
  const TOGETHER_MS = 150;
  const RETRY_MS = [1000, 2000, 5000, 10000];
  const BY_THE_CLOCK = "Updated every two seconds.";

  const live = () => document.getElementById("live");
  const state = document.getElementById("live-state");
  if (!live() || !state || !window.htmx) return;

  let connected = false;
  let failures = 0;
  let planned = null;
  let missed = false;

  const say = (text) => {
    if (state.textContent === text) return;
    state.textContent = text;
  };

  // Whoever types or presses a button is not interrupted.
  let pressed = false;
  addEventListener("pointerdown", () => (pressed = true), true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (pressed = false), true);
  const typing = () => {
    const fields = [...live().querySelectorAll("input:not([type=hidden]), textarea, select")];
    return fields.some((field) => field === document.activeElement || field.value !== field.defaultValue);
  };

  const fetchAgain = () => {
    planned = null;
    if (document.hidden || !live()) return;
    missed = typing();
    if (missed) say("Not updated while you type.");
    else htmx.trigger(document.body, "changed");
  };

  // Several events at once are one change.
  const changed = () => {
    planned ??= setTimeout(fetchAgain, TOGETHER_MS);
  };

  const listen = () => {
    const address = new URL(live().dataset.stream, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    socket.addEventListener("open", () => {
      connected = true;
      failures = 0;
      say("Live.");
      changed();
    });
    socket.addEventListener("message", changed);
    socket.addEventListener("close", () => {
      connected = false;
      say(BY_THE_CLOCK);
      setTimeout(listen, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
      failures += 1;
    });
  };

  setInterval(() => {
    if (!connected || missed) changed();
  }, EVERY_MS);
  document.addEventListener("visibilitychange", changed);

  // What was unfolded, and where the reader stood, stay as they were.
  const REACHED = "a, button, input, select, textarea, summary, [tabindex]";
  let unfolded = [];
  let stood = -1;
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (pressed || typing()) {
      event.detail.shouldSwap = false;
      missed = true;
      return;
    }
    unfolded = [...live().querySelectorAll("details[open][id]")].map((details) => details.id);
    stood = [...live().querySelectorAll(REACHED)].indexOf(document.activeElement);
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
    live()?.querySelectorAll(REACHED)[stood]?.focus({ preventScroll: true });
    // What is settled is not fetched again.
    const settled = !live()?.hasAttribute("hx-get");
    say(settled ? "" : connected ? "Live." : BY_THE_CLOCK);
  });

  if (live().dataset.stream) listen();
  else say(BY_THE_CLOCK);
})();

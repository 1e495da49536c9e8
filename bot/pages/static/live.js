// Keeps the page of a running run current. Without it the page reloads itself every 15 seconds.
"use strict";
(() => {
  const main = () => document.querySelector("main");
  const source = new EventSource(main().dataset.live);
  let busy = false;

  async function refresh() {
    const answer = await fetch(location.pathname, { credentials: "same-origin", redirect: "manual" });
    if (!answer.ok) return source.close();
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (!fresh) return source.close();
    for (const open of document.querySelectorAll("details[open][id]"))
      fresh.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
    const before = main().querySelector("[data-state]")?.dataset.state;
    const after = fresh.querySelector("[data-state]")?.dataset.state;
    main().replaceWith(fresh);
    if (after !== before) document.getElementById("news").textContent = after;
    if (!fresh.dataset.live) source.close();
  }

  source.addEventListener("message", async (event) => {
    if (busy || event.data === main().dataset.version) return;
    busy = true;
    try { await refresh(); } finally { busy = false; }
  });
})();

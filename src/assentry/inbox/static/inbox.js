// The inbox's own script. Everything works without it: it adds live updates, keys, relative times and a live difference.
"use strict";
(() => {
  const $ = (query, from = document) => from.querySelector(query);
  const $$ = (query, from = document) => [...from.querySelectorAll(query)];
  document.documentElement.classList.add("js");

  // The code of a sign-in link is behind its "#", so that no server or proxy logs it; the browser's history forgets it too.
  const code = $("#code");
  if (code && location.hash.length > 1) {
    code.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname);
    code.hidden = $("label[for=code]").hidden = true;
    $("button", code.form).focus();
  }

  // -- relative times ----------------------------------------------------------------------------
  const span = (ms) => {
    const seconds = Math.floor(ms / 1000);
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    return "";
  };
  const tick = () => {
    const now = Date.now();
    for (const each of $$("[data-at]")) {
      const words = span(now - Number(each.dataset.at));
      each.textContent = each.dataset.words === "ago" ? (words ? `${words} ago` : "just now") : words || "now";
      each.title = new Date(Number(each.dataset.at)).toLocaleString();
    }
    for (const each of $$("[data-until]")) {
      const rest = Number(each.dataset.until) - now, words = span(rest) || "under a minute", isDue = each.textContent.startsWith("due");
      each.textContent = rest < 0 ? (isDue ? "due now" : "the deadline has passed") : each.dataset.words === "rejected" ? `rejected in ${words} if nobody answers` : isDue ? `due in ${words}` : `${words} left`;
      each.classList.toggle("stop", rest < 300000);
      each.classList.toggle("warn", rest >= 300000 && rest < 3600000);
    }
  };

  // -- parts of the page that follow the store ---------------------------------------------------
  const ids = () => $$("#rows .row").map((row) => row.dataset.id);
  let turns = 0;
  const refresh = async (part) => {
    const mine = ++turns;
    const answer = await fetch(part.dataset.refresh, { headers: { "X-Part": "1" } });
    if (!answer.ok || answer.redirected) return;
    const text = await answer.text();
    if (mine < (part.shown || 0)) return; // a later answer was faster
    part.shown = mine;
    if (part.seen === text) return;
    const known = part.id === "rows" ? ids() : null;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const made = new DOMParser().parseFromString(text, "text/html");
    const from = part.dataset.part ? $(part.dataset.part, made) : made.body;
    if (!from) return;
    const was = part.id === "notice" && $(".banner", part) !== null;
    part.replaceChildren(...from.childNodes);
    part.seen = text;
    if (focused) $$("a", part).find((link) => link.getAttribute("href") === focused)?.focus();
    if (known) arrived(known);
    if (part.id === "notice" && !was && $(".banner", part)) settled(part);
    tick();
  };
  const arrived = (known) => {
    const fresh = $$("#rows .row").filter((row) => !known.includes(row.dataset.id));
    for (const row of fresh) row.classList.add("new");
    if (fresh.length) say(fresh.length === 1 ? `New question: ${$(".t", fresh[0]).textContent}` : `${fresh.length} new questions`);
  };
  const settled = (part) => {
    // Somebody decided while this person looked: the acts would only fail.
    say($(".banner", part).textContent.trim());
    for (const each of $$(".act button, .act .button")) each.remove();
    for (const each of $$(".act form")) each.remove();
    const whole = document.createElement("a"); // the rest of this page is as it was
    whole.href = location.href;
    whole.textContent = "See what was decided";
    $(".banner p", part).append(" ", whole);
  };
  const say = (words) => { $("#said").textContent = words; };
  let waiting = 0;
  const refreshAll = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { for (const part of $$("[data-refresh]")) refresh(part).catch(() => {}); }, 60);
  };

  // -- the stream of events ----------------------------------------------------------------------
  const source = document.body.dataset.liveFrom;
  if (source) {
    let stream, lost = 0;
    const alive = () => { clearTimeout(lost); lost = 0; $("#offline").hidden = true; $("#live").hidden = false; };
    const connect = () => {
      stream = new EventSource(source);
      stream.onopen = () => { alive(); refreshAll(); };
      stream.onerror = () => {
        $("#live").hidden = true;
        if (!lost) lost = setTimeout(() => { $("#offline").hidden = false; }, 1500);
        if (stream.readyState === 2) setTimeout(connect, 10000); // refused, and the browser does not try again
      };
      for (const name of ["question.asked", "question.decided", "question.replaced", "question.void", "run.changed", "reset"]) stream.addEventListener(name, refreshAll);
    };
    connect();
    addEventListener("pagehide", () => stream.close());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }
  for (const part of $$("[data-every]")) setInterval(() => { if (!document.hidden) refresh(part).catch(() => {}); }, Number(part.dataset.every) * 1000);

  // -- keys --------------------------------------------------------------------------------------
  // Until the next page is there, keys are not for this one: "j" and then "a" must not approve what is left behind.
  let leaving = 0;
  addEventListener("click", (event) => {
    const link = event.target.closest("a[href]"), elsewhere = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
    if (link && !elsewhere && !event.defaultPrevented && !link.getAttribute("href").startsWith("#")) leaving = Date.now();
  });
  addEventListener("submit", (event) => { if (event.target.method !== "dialog" && !event.defaultPrevented) leaving = Date.now(); });
  addEventListener("pageshow", () => { leaving = 0; });
  const move = (step) => {
    const rows = $$("#rows .row");
    let at = rows.findIndex((row) => row === document.activeElement || row.getAttribute("aria-current"));
    if (at < 0 && $("[data-question]")) { // this question is settled, and left its place between two rows
      const below = rows.findIndex((row) => "below" in row.dataset);
      at = (below < 0 ? rows.length : below) - (step > 0 ? 1 : 0);
    }
    const next = rows[at + step] || (step > 0 ? $("[data-next]") : null);
    if (next) { next.scrollIntoView({ block: "nearest" }); next.click(); } else if (step > 0) say($("#rows .more a") ? "The list goes on, on its next page." : "This is the end of the list.");
  };
  addEventListener("keydown", (event) => {
    if (Date.now() - leaving < 10000) { event.preventDefault(); return; }
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      const form = $("#send") || event.target.closest("form[data-send]") || $("form[data-send]");
      const live = $("[data-live-form]");
      if (form && !(live && live.dataset.stale)) { event.preventDefault(); form.requestSubmit($("[name=do][value=send]", form)); }
      return;
    }
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    if (typing && event.key !== "Escape") return;
    if (typing && typing.type === "search") { typing.blur(); return; }
    if (event.key === "?") { $("#help")?.showModal(); event.preventDefault(); return; }
    if (event.key === "j" || event.key === "k") { move(event.key === "j" ? 1 : -1); return; }
    const target = $(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target || (event.key === "Enter" && event.target !== document.body)) return;
    event.preventDefault();
    if (target.matches("input")) { target.focus(); target.select(); } else target.click();
  });
  for (const select of $$(".list .filters select")) select.addEventListener("change", () => select.form.requestSubmit());
  // A second click must not send a form twice.
  addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method === "dialog" || form.method === "get") return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    if (form.matches("[data-send]") || $("[name=type]", form)) form.dataset.sent = "1";
  });
  addEventListener("pageshow", () => { for (const form of $$("[data-sent]")) delete form.dataset.sent; });

  // What was typed before this script ran, or kept by the browser as it loaded the page anew.
  const touched = (form) => [...form.elements, ...$$("option", form)].some((field) => (/^(checkbox|radio)$/.test(field.type) ? field.checked !== field.defaultChecked : field.selected !== field.defaultSelected || ("defaultValue" in field && field.value !== field.defaultValue)));

  // -- the live difference of an edit ------------------------------------------------------------
  const form = $("[data-live-form]");
  if (form) {
    const sender = $("#sender"), reviewer = $("#reviewer");
    let later = 0, turn = 0;
    const show = () => {
      const ready = $("#send") && !form.dataset.stale;
      sender.hidden = false;
      sender.disabled = !ready;
      sender.classList.toggle("waits", !ready);
      reviewer.hidden = true;
    };
    const update = async () => {
      const mine = ++turn, data = new URLSearchParams(new FormData(form));
      data.set("do", "live");
      const answer = await fetch(form.action, { method: "POST", body: data }).catch(() => null);
      if (!answer || !answer.ok || mine !== turn) return;
      const made = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = $("#review", made);
      if (!fresh || mine !== turn) return;
      $("#review").replaceWith(fresh);
      delete form.dataset.stale;
      show();
    };
    if (touched(form)) { form.dataset.stale = "1"; update(); }
    else if (matchMedia("(pointer: fine)").matches) $("input:not([type=hidden]), select, textarea", form)?.focus({ preventScroll: true }); // on a phone it would open the keyboard
    form.addEventListener("input", (event) => {
      form.dataset.stale = "1";
      turn += 1; // an answer that is under way does not know of this
      show();
      const field = event.target;
      if ("defaultValue" in field) {
        const differs = field.value !== field.defaultValue;
        field.classList.toggle("changed", differs && field.type !== "radio");
        field.closest(".field")?.classList.toggle("touched", differs);
      }
      clearTimeout(later);
      later = setTimeout(update, 180);
    });
    show();
  }
  // Terms that were changed after they were put in words must be put in words again, even if it was before this script ran.
  const terms = $("#terms");
  if (terms) {
    const unsaid = () => { for (const each of $$("#send, [form=send], .zone.grant")) each.remove(); };
    terms.addEventListener("input", unsaid);
    if (touched(terms)) unsaid();
  }
  if (!/Mac|iP(hone|ad)/.test(navigator.platform)) for (const key of $$("kbd")) if (key.textContent === "⌘↵") key.textContent = "Ctrl ↵";
  tick();
  setInterval(tick, 15000);
})();

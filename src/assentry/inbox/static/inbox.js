// The inbox's own script. Everything works without it: it adds live updates, keys and relative times.
import { isHeld, overtaken } from "./hold.js";
import { $, $$, say, t, tell, timeLeft, touched } from "./page.js";
import { maySee } from "./seen.js";

(() => {
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
    const minutes = Math.floor(ms / 60000);
    if (minutes >= 1440) return t("{n} d", { n: Math.floor(minutes / 1440) });
    if (minutes >= 60) return t("{n} h", { n: Math.floor(minutes / 60) });
    return minutes > 0 ? t("{n} min", { n: minutes }) : "";
  };
  const moment = (at) => new Date(at).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "long" });
  const rest = (kind, left, time) => {
    if (left < 0) return kind === "due" ? t("due now") : t("the deadline has passed");
    if (kind === "rejected") return t("rejected in {time} if nobody answers", { time });
    return kind === "due" ? t("due in {time}", { time }) : t("{time} left", { time });
  };
  const tick = () => {
    const now = Date.now();
    for (const each of $$("[data-at]")) {
      const time = span(now - Number(each.dataset.at));
      each.textContent = each.dataset.words === "ago" ? (time ? t("{time} ago", { time }) : t("just now")) : time || t("now");
      each.title = moment(Number(each.dataset.at)); // the reader's own time, with its zone; `datetime` has the store's
    }
    for (const each of $$("[data-until]")) {
      const left = Number(each.dataset.until) - now;
      each.textContent = rest(each.dataset.words, left, span(left) || t("under a minute"));
      each.title = moment(Number(each.dataset.until));
      each.classList.toggle("stop", left < 300000);
      each.classList.toggle("warn", left >= 300000 && left < 3600000);
    }
  };
  // Nothing changes between the press of a pointer and its release: the click would be lost, or fall on something else.
  let released = Promise.resolve(), release = () => {};
  addEventListener("pointerdown", () => { released = new Promise((done) => { release = done; setTimeout(done, 1000); }); }, true);
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => setTimeout(release, 0), true);
  const leaveEmpty = (each) => { // what stands beside it does not move into its place, under a click that is on its way
    const empty = document.createElement("span"), { width, height } = each.getBoundingClientRect();
    Object.assign(empty.style, { width: `${width}px`, height: `${height}px` });
    each.replaceWith(empty);
  };
  const expire = async () => {
    // The deadline passed while this person looked: only a rejection is still taken.
    await released;
    if (isHeld() || !$(".act")) return;
    for (const each of $$(".act .approving, .act > [data-act]:not([data-act=late]), .act [form]")) leaveEmpty(each);
    tell(t("The deadline has passed: this cannot be approved any more."));
    const note = document.createElement("p");
    note.className = "late-note";
    note.textContent = t("The deadline has passed: this cannot be approved any more.");
    $(".act").prepend(note);
    tick();
  };
  if (timeLeft() < 2 ** 31) setTimeout(expire, Math.max(0, timeLeft() + 1));

  // -- parts of the page that follow the store ---------------------------------------------------
  const ids = () => $$("#rows .row").map((row) => row.dataset.id);
  let turns = 0;
  const refresh = async (part) => {
    const mine = ++turns;
    const answer = await fetch(part.dataset.refresh, { headers: { "X-Part": "1" } });
    if (!answer.ok || answer.redirected) return;
    const text = await answer.text();
    await released;
    if (mine < (part.shown || 0)) return; // a later answer was faster
    part.shown = mine;
    if (part.seen === text) return;
    const known = part.id === "rows" ? ids() : null;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const made = new DOMParser().parseFromString(text, "text/html");
    const from = part.dataset.part ? $(part.dataset.part, made) : made.body;
    if (!from) return;
    const was = part.id === "notice" && $(".banner", part) !== null;
    const kept = part.id === "rows" && inSight();
    part.replaceChildren(...from.childNodes);
    part.seen = text;
    if (kept) bringIntoSight();
    if (part.id === "rows" && $("#place")) $("#place").textContent = $("[data-place]", part)?.textContent || "";
    if (focused) $$("a", part).find((link) => link.getAttribute("href") === focused)?.focus();
    if (known) arrived(known);
    if (part.id === "notice" && !was && $(".banner", part)) settled(part);
    tick();
  };
  // The row of this question stays in sight, unless the reader has scrolled away from it; so does the place of the list.
  const list = $(".list");
  const bounds = () => [$("#rows [aria-current].row")?.getBoundingClientRect(), $(".filters", list)?.getBoundingClientRect().bottom, list?.getBoundingClientRect().bottom];
  const inSight = () => { const [row, top, bottom] = bounds(); return Boolean(row && row.bottom > top && row.top < bottom); };
  const bringIntoSight = () => {
    const [row, top, bottom] = bounds();
    if (!row || list.scrollHeight <= list.clientHeight) return;
    if (row.top < top) list.scrollTop -= top - row.top;
    else if (row.bottom > bottom - 20) list.scrollTop += row.bottom - bottom + 20;
  };
  const SCROLLED = "assentry-scrolled";
  if (list) {
    const [where, top] = JSON.parse(sessionStorage.getItem(SCROLLED) || "[]");
    if (where === $("#rows").dataset.refresh.replace(/[?&]at=[^&]*/, "")) list.scrollTop = top;
    bringIntoSight();
    addEventListener("pagehide", () => sessionStorage.setItem(SCROLLED, JSON.stringify([$("#rows").dataset.refresh.replace(/[?&]at=[^&]*/, ""), list.scrollTop])));
  }
  const arrived = (known) => {
    const fresh = $$("#rows .row").filter((row) => !known.includes(row.dataset.id));
    for (const row of fresh) row.classList.add("new");
    if (fresh.length) say(fresh.length === 1 ? t("New question: {sentence}", { sentence: $(".t", fresh[0]).textContent }) : t("{n} new questions", { n: fresh.length }));
  };
  const settled = (part) => {
    // Somebody decided while this person looked: the acts would only fail.
    const banner = $(".banner", part), act = $(".act"), words = document.createElement("p");
    if (!overtaken()) tell(banner.textContent.trim().replace(/\s+/g, " "));
    words.textContent = $("strong", banner).textContent; // the banner may be out of sight
    act.style.minHeight = `${act.getBoundingClientRect().height}px`; // what is below does not come under a click that is on its way
    act.replaceChildren(words);
    const whole = document.createElement("a"); // the rest of this page is as it was
    whole.href = location.href;
    whole.textContent = t("See what was decided");
    $(".banner p", part).append(" ", whole);
  };
  // Soon after the first news, and at most twice a second: neither does a stream of news put it off for ever.
  let waiting = 0, looked = 0;
  const refreshAll = () => {
    waiting ||= setTimeout(() => {
      [waiting, looked] = [0, Date.now()];
      for (const part of $$("[data-refresh]")) refresh(part).catch(() => {});
    }, Math.min(500, Math.max(60, looked + 500 - Date.now())));
  };

  // -- the stream of events ----------------------------------------------------------------------
  const source = document.body.dataset.liveFrom;
  if (source) {
    let stream, lost = 0;
    const alive = () => { clearTimeout(lost); lost = 0; $("#offline").hidden = true; $("#live").hidden = false; };
    const connect = () => {
      stream = new EventSource(source);
      stream.onopen = () => { alive(); refreshAll(); dispatchEvent(new CustomEvent("inbox-news", { detail: "open" })); };
      stream.onerror = () => {
        $("#live").hidden = true;
        if (!lost) lost = setTimeout(() => { $("#offline").hidden = false; }, 1500);
        if (stream.readyState === 2) setTimeout(connect, 10000); // refused, and the browser does not try again
      };
      for (const name of ["question.asked", "question.decided", "question.replaced", "question.void", "run.changed", "stop.changed", "reset"]) stream.addEventListener(name, () => { refreshAll(); dispatchEvent(new CustomEvent("inbox-news", { detail: name })); });
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
    if (next) { next.scrollIntoView({ block: "nearest" }); next.click(); } else if (step > 0) tell($("#rows .more a") ? t("The list goes on, on its next page.") : t("This is the end of the list."));
  };
  addEventListener("keydown", (event) => {
    if (Date.now() - leaving < 10000) { event.preventDefault(); return; }
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      if ($("[data-live-form]")) return; // an edit is sent by its own script, once it is checked
      const form = $("#send") || event.target.closest("form[data-send]") || $("#answer");
      if (!form) return;
      event.preventDefault();
      const approval = $("[data-act=whole]", form) || $(`[data-act=whole][form="${form.id}"]`);
      if (!event.repeat && (!approval || maySee(approval))) form.requestSubmit($("[name=do][value=send]", form));
      return;
    }
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    if (typing && event.key !== "Escape") return;
    if (typing && typing.type === "search") { typing.blur(); return; }
    if (document.body.dataset.keys === "off" && event.key.length === 1) return;
    if (event.key === "?") { $("#help")?.showModal(); event.preventDefault(); return; }
    if (event.key === "j" || event.key === "k") { move(event.key === "j" ? 1 : -1); return; }
    const target = $(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target || (event.key === "Enter" && event.target !== document.body)) return;
    event.preventDefault();
    if (!maySee(target)) return;
    if (target.dataset.key === "n") { target.closest("details").open = true; $("textarea", target.closest("details")).focus(); return; }
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

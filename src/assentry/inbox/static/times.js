// Times of the store in the reader's own zone, with the zone and the exact time in UTC in the title.
import { $$, t } from "./page.js";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
const short = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" }); // 2026-11-18 21:04:05
const clock = new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium" });

const inLocal = (each) => {
  if (each.dataset.done) return;
  each.dataset.done = "1";
  if (each.dataset.local) { // a time in the arguments: what was written stays, the reader's own stands beside it
    const at = new Date(each.dataset.local);
    if (!isNaN(at)) { each.textContent = t("{time} here", { time: short.format(at) }); each.title = zone; }
    return;
  }
  const at = new Date(Number(each.dataset.utc));
  if (isNaN(at)) return;
  each.textContent = /^\d\d:/.test(each.textContent) ? clock.format(at) : short.format(at);
  each.title = `${zone} · ${each.title}`;
};
const look = () => { for (const each of $$(".moment[data-utc], .moment[data-local]")) inLocal(each); };
look();
new MutationObserver(look).observe(document.body, { childList: true, subtree: true });

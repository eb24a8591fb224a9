// Keys act only on what was on the screen: the headline for every key, all of the question for its approval.
import { $, $$, t, tell } from "./page.js";

const first = $("#sentence") || $("main.step h1"), last = $("#whole");
let drawn = first === null, begun = first === null, ended = last === null;

if (first) new IntersectionObserver((entries, observer) => {
  drawn = true; // the browser has drawn the page once
  if (entries.some((each) => each.isIntersecting)) { begun = true; observer.disconnect(); }
}).observe(first);
let watch = null;
const toTheEnd = () => { // true again once the end of the arguments is, or comes, on the screen
  const below = $(".act")?.offsetHeight || 0; // what the buttons cover is not seen
  ended = false;
  watch?.disconnect(); // what it has seen was before
  watch = new IntersectionObserver((entries, observer) => { if (entries.some((each) => each.isIntersecting)) { ended = true; observer.disconnect(); } }, { rootMargin: `0px 0px -${below}px 0px` });
  watch.observe(last);
};
const isBeforeEnd = (each) => each.matches(".fold") && Boolean(last.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_PRECEDING);
const unfolded = new Set(); // the parts from whose opening on the end has been looked for
const unfold = () => { // what is folded is not on the screen; what was opened just now is not seen yet
  const fresh = last ? $$(".fold").filter((each) => isBeforeEnd(each) && !unfolded.has(each)) : [];
  for (const each of fresh) { each.open = true; unfolded.add(each); }
  if (fresh.length) toTheEnd();
};
if (last) {
  for (const each of $$(".fold[open]")) unfolded.add(each);
  toTheEnd();
  addEventListener("toggle", ({ target }) => {
    if (!target.matches(".fold") || !isBeforeEnd(target) || target.open === unfolded.has(target)) return;
    if (target.open) { unfolded.add(target); toTheEnd(); } else unfolded.delete(target);
  }, true);
}

/** Return true if a key may press this button or link; say why if not. */
export const maySee = (target) => {
  if (!("act" in target.dataset)) return true;
  if (!drawn) { tell(t("The question is not on the screen yet. Press the key again.")); return false; }
  if (target.dataset.act === "whole") unfold();
  if (target.dataset.act === "whole" && !(begun && ended)) { tell(t("Scroll through the question to the end of its arguments first.")); return false; }
  return true;
};

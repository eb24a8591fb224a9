// Many questions at once: ticks in the list and in the table, ranges with Shift, and how many there are.
import { $, $$, say, t } from "./page.js";

const KEPT = "assentry-picked"; // the ticks outlive a page of the list: "j" and "x" go through it

// -- ranges --------------------------------------------------------------------------------------
const ranges = (boxes, changed) => {
  let last = null; // by its value: the rows of a list are made anew as the list changes
  addEventListener("click", (event) => {
    const all = boxes(), box = event.target;
    if (!all.includes(box)) return;
    const start = all.findIndex((each) => each.value === last);
    if (event.shiftKey && start >= 0) {
      const [from, to] = [start, all.indexOf(box)].sort((one, two) => one - two);
      for (const each of all.slice(from, to + 1)) each.checked = box.checked;
    }
    last = box.value;
    changed(box, event);
  });
  addEventListener("mousedown", (event) => { if (event.shiftKey && event.target.closest(".tick")) event.preventDefault(); }); // no selected text
};

// -- the list ------------------------------------------------------------------------------------
const bar = $("#many"), rows = $("#rows");
if (bar && rows) {
  const ticks = () => $$("#rows .tick input");
  const kept = () => new Set(JSON.parse(sessionStorage.getItem(KEPT) || "[]"));
  let focused = null;
  const show = () => {
    const count = ticks().filter((box) => box.checked).length;
    bar.hidden = count === 0;
    $("#picked").textContent = t("{n} selected", { n: count });
    for (const box of ticks()) box.closest(".selectable").classList.toggle("chosen", box.checked);
  };
  const keep = () => {
    sessionStorage.setItem(KEPT, JSON.stringify(ticks().filter((box) => box.checked).map((box) => box.value)));
    show();
  };
  const restore = () => {
    const chosen = kept();
    for (const box of ticks()) box.checked = chosen.has(box.value);
    if (focused && document.activeElement === document.body) ticks().find((box) => box.value === focused)?.focus({ preventScroll: true });
    show();
  };
  restore();
  new MutationObserver(restore).observe(rows, { childList: true });
  addEventListener("pageshow", restore);
  addEventListener("focusin", (event) => { focused = event.target.matches("#rows .tick input") ? event.target.value : null; });
  ranges(ticks, (box, event) => {
    keep();
    if (event.detail) $(".row", box.closest(".selectable")).focus({ preventScroll: true }); // after the mouse, the keys go on from this row
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "x" || document.body.dataset.keys === "off" || event.repeat || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const place = document.activeElement.closest(".selectable") || $("#rows .row[aria-current]")?.closest(".selectable") || $("#rows .selectable");
    const box = place && $(".tick input", place);
    if (!box) return;
    event.preventDefault();
    box.checked = !box.checked;
    keep();
    if (!place.contains(document.activeElement)) $(".row", place).focus({ preventScroll: true });
    say(`${box.checked ? t("Selected") : t("Not selected")}. ${$("#picked").textContent}`);
  });
}

// -- the table -----------------------------------------------------------------------------------
const form = $("#decide");
if (form) {
  const ticks = () => $$(".compare .tick input", form);
  const confirm = $("#confirm");
  const show = () => {
    const chosen = ticks().filter((box) => box.checked);
    const warned = chosen.some((box) => "warned" in box.closest("tr").dataset);
    $("#ticked").textContent = t("{n} of {all} ticked.", { n: chosen.length, all: ticks().length });
    for (const button of $$("button[name=type]", form)) button.disabled = chosen.length === 0;
    if (confirm) {
      $("#pinned").hidden = !warned;
      confirm.required = warned;
    }
  };
  ranges(ticks, show);
  addEventListener("pageshow", show);
  show();
}

if ($("#many-done")) sessionStorage.removeItem(KEPT);

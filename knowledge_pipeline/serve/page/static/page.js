// What the page does beyond its links and forms: keys, panels in place, light and dark, feedback in place.

const root = document.documentElement;
const csrf = document.body.dataset.csrf;
const box = document.getElementById("q");
const help = document.getElementById("help");
root.classList.add("with-script");

// Light and dark: the server reads the cookie, so that no page is shown in the wrong colours first.

document.getElementById("theme-button").addEventListener("click", () => {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  const secure = location.protocol === "https:" ? ";secure" : "";
  document.cookie = `knowledge_theme=${root.dataset.theme};path=/;max-age=31536000;samesite=strict${secure}`;
});

// Waiting: a bar at once, a sentence when it takes long.

const busy = document.getElementById("busy");
let late;

function wait(on) {
  clearTimeout(late);
  busy.classList.toggle("on", on);
  busy.classList.remove("late");
  document.getElementById("main").classList.toggle("waits", on);
  busy.textContent = "";
  if (!on) return;
  late = setTimeout(() => {
    busy.dataset.message = "Still searching…";
    busy.classList.add("late");
    busy.innerHTML = '<span class="visually-hidden">Still searching…</span>';
  }, 1500);
}

document.addEventListener("submit", (event) => {
  if (event.target.id !== "search") return;
  remember(document.activeElement);
  wait(true);
});
addEventListener("pageshow", () => wait(false));

if (box?.tagName === "TEXTAREA") {
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) box.form.requestSubmit();
  });
}

// Panels: the graph and similar passages, under the result.

async function show(panel, url) {
  panel.hidden = false;
  panel.setAttribute("aria-busy", "true");
  panel.textContent = "Loading…";
  const address = new URL(url, location.href);
  address.searchParams.set("part", "1");
  try {
    const answer = await fetch(address, { credentials: "same-origin" });
    if (answer.status === 401) return location.reload();
    panel.innerHTML = await answer.text(); // HTML of this server, which escapes what it shows
    panel.querySelectorAll("[id]").forEach((each) => each.closest("svg") || (each.id = `in-${each.id}`));
    panel.querySelectorAll("label[for]").forEach((each) => (each.htmlFor = `in-${each.htmlFor}`));
    panel.querySelectorAll("details[name]").forEach((each) => (each.name = `in-${each.name}`));
  } catch {
    panel.textContent = "The server did not answer. ";
    const link = document.createElement("a");
    link.href = url;
    link.textContent = "Open it as a page";
    panel.append(link);
  } finally {
    panel.removeAttribute("aria-busy");
    panel.querySelector(".panel-title")?.scrollIntoView({ block: "nearest" });
  }
}

function toggle(link) {
  const result = link.closest(".result");
  const panel = result.querySelector(":scope > .opened");
  const open = link.getAttribute("aria-expanded") === "true";
  result.querySelectorAll(":scope > footer [data-panel]").forEach((each) => each.setAttribute("aria-expanded", "false"));
  panel.hidden = true;
  if (open) return;
  link.setAttribute("aria-expanded", "true");
  show(panel, link.href);
}

function leave(panel) {
  const link = panel.closest(".result").querySelector(':scope > footer [aria-expanded="true"]');
  link.focus();
  toggle(link);
}

document.querySelectorAll("[data-panel]").forEach((each) => each.setAttribute("aria-expanded", "false"));

// Feedback, sent in the background. A click on a result reports that it was opened.

function judge(form, judgement) {
  const fields = new URLSearchParams(new FormData(form));
  fields.set("judgement", judgement);
  fields.set("background", "1");
  return fetch(form.action, { method: "POST", body: fields, keepalive: true, credentials: "same-origin" });
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches(".judge") || !event.submitter) return;
  event.preventDefault();
  const chosen = event.submitter;
  const answer = await judge(form, chosen.value).catch(() => null);
  if (!answer?.ok) {
    chosen.textContent = "Not saved: try again";
    return;
  }
  form.querySelectorAll("button").forEach((each) => each.setAttribute("aria-pressed", String(each === chosen)));
});

function clicked(link) {
  const form = link.closest(".result")?.querySelector(":scope > footer .judge");
  if (!form || form.dataset.clicked) return;
  form.dataset.clicked = "1";
  judge(form, "clicked").catch(() => null);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  if (link.matches(".main, .open, .n a")) clicked(link);
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!plain) return;
  if (link.matches(".result > footer [data-panel]")) {
    event.preventDefault();
    toggle(link);
  } else if (link.matches(".opened [data-inside]")) {
    event.preventDefault();
    show(link.closest(".opened"), link.getAttribute("href"));
  } else if (link.matches(".tabs a, .button") || (link.origin === location.origin && link.pathname === "/")) {
    if (link.search && !link.hash) remember(link);
    wait(true);
  }
});
document.addEventListener("auxclick", (event) => {
  const link = event.target.closest(".main, .open");
  if (link && event.button === 1) clicked(link);
});

// How far refreshes are, as long as somebody looks. Whoever listens hears of a new stage now and then.

const live = document.getElementById("live");
const liveStatus = document.getElementById("live-status");
const SECONDS_BETWEEN_WORDS = 10;
const PAUSE_MS = 5_000; // between two sources of one refresh, while it releases
let stream, lastEvent, ending, spokenAt = 0, spoken = "";

function say(sentence, link) {
  liveStatus.textContent = sentence;
  if (!link) return;
  const reload = document.createElement("a");
  reload.href = location.href;
  reload.textContent = link;
  liveStatus.append(" ", reload);
}

function showProgress({ html, sources, summary }) {
  clearTimeout(ending);
  const running = html.trim() !== "";
  if (!running && !live.hidden) ending = setTimeout(endProgress, PAUSE_MS);
  document.querySelectorAll(".running").forEach((each) => (each.textContent = sources[each.dataset.source] ?? ""));
  if (!running) return;
  live.querySelector("ul").innerHTML = html; // HTML of this server, which escapes what it shows
  live.hidden = false;
  document.querySelector(".idle")?.setAttribute("hidden", ""); // what to do first is being done
  const now = performance.now() / 1000;
  if (summary !== spoken && now > spokenAt + SECONDS_BETWEEN_WORDS && !liveStatus.querySelector("a")) {
    [spoken, spokenAt] = [summary, now];
    liveStatus.classList.add("visually-hidden");
    say(`Being refreshed: ${summary}`);
  }
}

function endProgress() {
  live.hidden = true;
  liveStatus.classList.remove("visually-hidden");
  say("The refresh has ended.", "Show what is new");
}

function follow() {
  if (!live || stream || document.hidden) return;
  stream = new EventSource(live.dataset.stream + (lastEvent ? `?after=${lastEvent}` : ""));
  stream.addEventListener("refresh.progress", (event) => {
    lastEvent = event.lastEventId || lastEvent;
    showProgress(JSON.parse(event.data));
  });
  stream.addEventListener("release.published", (event) => {
    lastEvent = event.lastEventId || lastEvent;
    liveStatus.classList.remove("visually-hidden");
    say(`Release ${JSON.parse(event.data).release} can be searched.`, "Show it");
  });
  stream.addEventListener("error", () => {
    if (stream?.readyState !== EventSource.CLOSED) return; // the browser connects again
    stream = null; // refused: too many, signed out
    setTimeout(follow, 10_000);
  });
}

function unfollow() {
  stream?.close();
  stream = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? unfollow() : follow()));
addEventListener("pagehide", unfollow);
addEventListener("pageshow", follow);

// Searches, filters and tabs load a page: the focus is where it was, or at the results if that is gone.

function remember(each) {
  sessionStorage.setItem("knowledge-focus", each.dataset.focus || each.id || "results");
}

const focused = sessionStorage.getItem("knowledge-focus");
sessionStorage.removeItem("knowledge-focus");
if (focused) {
  const named = document.querySelector(`[data-focus="${CSS.escape(focused)}"]`) ?? document.getElementById(focused);
  const back = named ?? document.getElementById("results");
  back?.focus({ preventScroll: true });
  back?.setSelectionRange?.(back.value.length, back.value.length); // one types on
}

// On wide screens filters and outlines are always open.

const side = document.querySelector(".side > details");
if (side && matchMedia("(min-width: 52.01rem)").matches) side.open = true;

// What scrolls sideways can be scrolled by keys.

document.querySelectorAll(".body, .whole .code, pre").forEach((each) => {
  if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
});

// A range of lines in the address of a document: #L10-L24.

function markRange() {
  const found = /^#L(\d+)-L(\d+)$/.exec(location.hash);
  if (!found) return;
  for (let line = Number(found[1]); line <= Number(found[2]); line++) {
    document.getElementById(`L${line}`)?.classList.add("hit");
  }
  document.getElementById(`L${found[1]}`)?.scrollIntoView({ block: "center" });
}
markRange();
addEventListener("hashchange", markRange);

// Keys

const keysOn = document.getElementById("keys-on");
keysOn.checked = localStorage.getItem("knowledge-keys") !== "off";
keysOn.addEventListener("change", () => localStorage.setItem("knowledge-keys", keysOn.checked ? "on" : "off"));
document.getElementById("help-button").addEventListener("click", () => help.showModal());

const results = () => [...document.querySelectorAll(".results > .result, .similar > .result")];
const current = () => document.activeElement?.closest(".results > .result, .similar > .result");

function move(step) {
  const all = results();
  if (!all.length) return;
  const at = all.indexOf(current());
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
  next.querySelector(".main").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function within(selector, act) {
  const result = current() ?? results()[0];
  const found = result?.querySelector(selector);
  if (found) act(found, result);
}

function place(result) {
  navigator.clipboard?.writeText(result.dataset.place);
  busy.textContent = "";
  busy.dataset.message = `Copied ${result.dataset.place}`;
  busy.classList.add("late");
  setTimeout(() => busy.classList.remove("late"), 1500);
}

const keys = {
  j: () => move(1),
  ArrowDown: () => move(1),
  k: () => move(-1),
  ArrowUp: () => move(-1),
  o: () => within(":scope > footer .open, .main", (link, result) => (result.querySelector(":scope > footer .open") ?? link).click()),
  x: () => within(":scope > .unfold", (each) => each.click()),
  e: () => within(":scope > footer .why", (each) => (each.open = !each.open)),
  g: () => within(':scope > footer [data-panel="graph"]', toggle),
  s: () => within(':scope > footer [data-panel="similar"]', toggle),
  r: () => within(":scope > footer .relations", (each) => (each.open = !each.open)),
  y: () => within(".main", (_, result) => place(result)),
  "/": () => { box?.focus(); box?.select(); },
  "?": () => help.showModal(),
};
for (const number of [1, 2, 3, 4]) {
  keys[number] = () => document.querySelector(`.tabs:not(.small) a:nth-child(${number})`)?.click();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select, dialog");
  if (event.key === "Escape" && event.target === box) return box.blur();
  if (event.key === "Escape" && event.target.closest(".opened")) return leave(event.target.closest(".opened"));
  if (event.key === "ArrowDown" && event.target === box && box.tagName === "INPUT" && results().length) {
    event.preventDefault();
    return move(1);
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const arrow = event.key.startsWith("Arrow");
  if (!keys[event.key] || (!keysOn.checked && !arrow)) return;
  if (arrow && (!results().length || event.target.closest(".drawing, .side"))) return;
  event.preventDefault();
  keys[event.key]();
});

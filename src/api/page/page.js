"use strict";
// The page shows what it hears and forgets it in time: what is known of a leader has an end, and without a word from
// the sidecar that end comes by itself. Everything is written as text; there is no markup in any answer.

const SILENCE_MS = 4000; // The sidecar says something every second.
const AGAIN_MS = 1000;
const LISTS_MS = 3000;
const DONE_MAX = 10;

const $ = (id) => document.getElementById(id);
const roles = new Map(); // name -> what was heard of it, and its card
let token = null;
let tokenGiven = null; // resolves the wait for a token
let connected = false;
let heardAt = null; // when the sidecar was last heard, wall time
let stream = null; // aborts the stream
const lists = { jobs: { off: false, path: "/jobs" }, locks: { off: false, path: "/locks" } };

/** An element. A property that starts with a dash is an attribute. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name[0] === "-") element.setAttribute(name.slice(1), value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** Writes only what has changed: a screen reader is told of every change, and a selection survives. */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Times

function clockTime(date) {
  const time = date.toLocaleTimeString("sv"); // 24 hours, wherever this is
  return date.toDateString() === new Date().toDateString() ? time : date.toLocaleDateString("sv") + " " + time;
}

function span(ms) {
  const s = Math.round(ms / 1000);
  if (s < 120) return s + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " days";
}

function distance(date) {
  const ms = date - Date.now();
  return ms > 500 ? "in " + span(ms) : ms < -500 ? span(-ms) + " ago" : "now";
}

function timeOf(text) {
  const date = new Date(text);
  return make("time", { dateTime: text, "-data-at": text }, clockTime(date) + " (" + distance(date) + ")");
}

function refreshTimes() {
  for (const time of document.querySelectorAll("time[data-at]")) {
    const date = new Date(time.dateTime);
    write(time, clockTime(date) + " (" + distance(date) + ")");
  }
}

// Asking

function headers(more = {}) {
  return token === null ? more : { ...more, Authorization: "Bearer " + token };
}

/** What went wrong with an answer, in its own words. */
async function problemOf(response) {
  let detail = response.status + " " + response.statusText;
  try {
    const problem = await response.json();
    detail = (problem.title || detail) + (problem.detail ? ": " + problem.detail : "");
  } catch { /* it is no JSON: the status has to do */ }
  return detail;
}

function report(good, text) {
  $("done-part").hidden = false;
  const entry = make("li", { className: good ? "good" : "bad" },
    (good ? "✓ " : "✗ Refused: ") + clockTime(new Date()) + " " + text);
  $("done").prepend(entry);
  while ($("done").children.length > DONE_MAX) $("done").lastChild.remove();
}

/** Sends what changes something, and shows what came of it. The header is one that no other site's page may send. */
async function act(what, path, body, method = "POST") {
  try {
    const more = { "X-Baton-Request": "page" };
    if (body) more["Content-Type"] = "application/json";
    const response = await fetch(path,
      { method, headers: headers(more), body: body ? JSON.stringify(body) : undefined, cache: "no-store" });
    if (!response.ok) return report(false, what + ": " + await problemOf(response));
    const answer = response.status === 204 ? null : await response.json();
    report(true, what + (answer && answer.run ? ": " + answer.run : answer && answer.state ? ": " + answer.state : ""));
  } catch (error) {
    report(false, what + ": no answer (" + error.message + "); it may have been done all the same");
  }
  refreshLists();
}

// Roles

const MARKS = { leading: "●", standby: "○", campaigning: "◌", draining: "◐", guarded: "▲", unhealthy: "✖",
  unreachable: "✖", lost: "?" };

/** Who leads, in a sentence. */
function sentence(status) {
  const other = status.holder && status.holder + " leads";
  switch (status.state) {
    case "leading": return "This replica leads";
    case "draining": return "This replica hands over";
    case "standby": return other || "Nobody is known to lead";
    case "campaigning": return other || "Nobody is known to lead; this replica asks for it";
    case "guarded": return "Nobody may lead yet";
    case "unhealthy": return other || "Nobody is known to lead; this app is unwell";
    case "unreachable": return other || "Nobody is known to lead; the store is out of reach";
    default: return status.state;
  }
}

function leftWords(state, ms) {
  const time = (ms / 1000).toFixed(1) + " s";
  switch (state) {
    case "lost": return time + " left of what was heard";
    case "leading": return time + " left, unless renewed";
    case "draining": return time + " until its promises have run out";
    default: return "known for another " + time;
  }
}

function newCard(name) {
  const id = "role-" + name.replace("/", "-");
  const card = {
    item: make("li", { className: "card", "-data-role": name }),
    mark: make("span", { className: "mark", "-aria-hidden": "true" }),
    who: make("span"),
    bar: make("progress", { max: 1, value: 0, "-aria-label": "Time left" }),
    left: make("p", { className: "left-text" }),
    state: make("dd"), token: make("dd", { className: "number" }), reason: make("dd"), since: make("dd"),
    resign: make("button", { type: "button", "-aria-describedby": id }, "Resign …"),
    why: make("dt", {}, "Why"),
    facts: make("dl"),
    rows: make("tbody"),
    count: make("summary"),
  };
  card.resign.addEventListener("click", () => askToResign(name));
  const column = (text) => make("th", { scope: "col" }, text);
  card.facts.append(make("dt", {}, "State"), card.state, make("dt", {}, "Since"), card.since, make("dt", {}, "Token"),
    card.token, card.why, card.reason);
  card.item.append(
    make("div", { className: "top" }, make("h3", { id }, name), card.resign),
    make("p", { className: "who" }, card.mark, card.who), card.bar, card.left, card.facts,
    make("details", {}, card.count, make("table", { "-aria-labelledby": id },
      make("thead", {}, make("tr", {}, column("When"), column("What"), column("Leader"))), card.rows)));
  return card;
}

/** The roles that there are now. */
function heardRoles(names) {
  for (const [name, role] of roles) {
    if (names.includes(name)) continue;
    role.card.item.remove();
    roles.delete(name);
  }
  for (const name of names) {
    if (!roles.has(name)) roles.set(name, { card: newCard(name), status: null, until: 0, whole: 1 });
    $("roles").append(roles.get(name).card.item);
  }
  $("no-roles").hidden = names.length > 0;
  write($("no-roles"), "This replica has no roles.");
}

function heardStatus(status) {
  const role = roles.get(status.role);
  if (!role) return;
  const news = !role.status || role.status.index !== status.index;
  const before = role.status && sentence(role.status);
  // The bar is as long as the longest time seen in this state: one lease, after the first renewal.
  if (!role.status || role.status.state !== status.state || role.status.holder !== status.holder) role.whole = 1;
  role.status = status;
  role.until = performance.now() + (status.time_left_ms || 0);
  role.whole = Math.max(role.whole, status.time_left_ms || 0);
  write($("identity"), status.identity);
  document.title = status.identity + " · Baton";
  if (before && before !== sentence(status)) write($("said"), status.role + ": " + sentence(status));
  if (news) fillCard(role);
  paint(role);
  if (news) refreshLists();
}

function fillCard({ card, status }) {
  card.since.replaceChildren(timeOf(status.since));
  // "web-1 leads" is said above already.
  const why = status.reason === sentence(status) ? "" : status.reason || "";
  write(card.reason, why);
  card.why.hidden = card.reason.hidden = why === "";
  const rows = status.changes.map((change) => make("tr", {}, make("td", {}, timeOf(change.at)),
    make("td", {}, change.state, make("span", { className: "sub" },
      change.token ? "token " + change.token : change.reason || "")),
    make("td", {}, change.holder || "–")));
  card.rows.replaceChildren(...rows);
  write(card.count, "Last changes (" + rows.length + ")");
}

/** What depends on the time: called with every event, and a few times a second. */
function paint({ card, status, until, whole }) {
  if (!status) return;
  const left = Math.max(0, until - performance.now());
  // What was heard is good for as long as it said, and no longer.
  const stale = !connected || (status.time_left_ms !== null && left === 0 && status.state !== "draining");
  const state = stale ? "lost" : status.state;
  const className = "card " + state;
  if (card.item.className !== className) card.item.className = className;
  write(card.mark, MARKS[state] || "?");
  const last = sentence(status);
  write(card.who, !stale ? last : connected ? "Not known at the moment"
    : left > 0 ? "Not connected; last heard: " + last[0].toLowerCase() + last.slice(1) : "Not known: not connected");
  write(card.state, status.state);
  write(card.token, status.token === null ? "–" : String(status.token));
  card.bar.max = whole;
  card.bar.value = left;
  write(card.left, left > 0 ? leftWords(state, left) : "no time left");
  card.facts.hidden = stale;
  card.bar.hidden = status.time_left_ms === null && left === 0;
  card.left.hidden = card.bar.hidden;
  card.resign.disabled = stale || status.state !== "leading";
}

let onYes = null; // what the dialog asks about

/** Asks first. */
function confirmed(what, text, yes, hasCooldown, go) {
  onYes = go;
  write($("confirm-title"), what);
  write($("confirm-text"), text);
  write($("confirm-yes"), yes);
  $("cooldown").value = "";
  $("cooldown-part").hidden = !hasCooldown;
  $("confirm").showModal();
  $("confirm-no").focus();
}

function askToResign(name) {
  confirmed("Resign " + name + "?", "This replica hands " + name + " over once its promises have run out, and stays "
    + "out of it for a while. If no other replica is there to take it, nobody leads meanwhile.", "Resign", true,
  (cooldown) => act("resign " + name, "/leader/" + name + "/resign", cooldown ? { cooldown } : null));
}

function askToUnlock(name, { token }, who) {
  confirmed("End the lock " + name + "?", "It is free at once, though " + who + " was promised it and may still act on "
    + "it: make sure that it has stopped. If another has the lock by then, nothing happens.", "End it", false,
  () => act("unlock " + name, "/locks/" + encodeURIComponent(name), { token }, "DELETE"));
}

$("confirm-no").addEventListener("click", () => $("confirm").close());
$("confirm-yes").addEventListener("click", () => {
  $("confirm").close();
  onYes($("cooldown").value);
});

// Jobs and locks

function cell(label, ...children) {
  return make("td", { "-role": "cell", "-data-label": label }, make("div", {}, ...children));
}

function runWords(run) {
  const last = run.attempts[run.attempts.length - 1];
  const words = [run.phase + (run.reason ? " (" + run.reason.replaceAll("_", " ") + ")" : "")];
  if (run.attempts.length > 1) words.push("attempt " + last.attempt);
  if (last) words.push("on " + last.identity);
  if (run.manual) words.push("asked for by hand");
  if (run.ordered) words.push("to be " + (run.ordered === "cancel" ? "cancelled" : "retried"));
  return words.join(", ");
}

function runLines(run) {
  const lines = [runWords(run), make("span", { className: "sub" }, timeOf(run.ended || run.started || run.scheduled))];
  const last = run.attempts[run.attempts.length - 1];
  if (last && last.note) lines.push(make("span", { className: "sub" }, last.note));
  return lines;
}

function jobButton(text, what, name) {
  const button = make("button", { type: "button", "-aria-label": text + ": " + name }, text);
  button.dataset.act = what;
  button.addEventListener("click",
    () => act(what + " " + name, "/jobs/" + encodeURIComponent(name) + "/" + what));
  return button;
}

function jobRow(job) {
  const name = make("th", { scope: "row", "-role": "rowheader" }, job.job,
    make("span", { className: "sub" }, job.schedule + ", role " + job.role));
  const next = job.suspended ? ["suspended"] : job.paused ? ["suspended with all others"] : job.next ? [timeOf(job.next)] : ["–"];
  const active = job.active.flatMap((run) => [make("div", {}, ...runLines(run))]);
  return [name, cell("Next run", ...next), cell("Last run", ...(job.last ? runLines(job.last) : ["–"])),
    cell("Now", ...(active.length ? active : ["–"])),
    cell("Do", make("span", { className: "buttons" }, jobButton("Run now", "run", job.job),
      job.suspended ? jobButton("Resume", "resume", job.job) : jobButton("Suspend", "suspend", job.job)))];
}

function lockRow(lock) {
  const who = (holder) => (holder.owner || "unnamed") + " on " + holder.identity;
  const holders = lock.holders.map((holder) => make("div", {}, who(holder),
    make("span", { className: "sub" }, "token " + holder.token + ", " + span(holder.ends_in_ms) + " left"
      + (holder.holds > 1 ? ", taken " + holder.holds + " times" : ""))));
  const here = lock.waiting_here ? " (" + lock.waiting_here + " through this replica)" : "";
  const buttons = lock.holders.map((holder) => {
    const label = "End: " + lock.name + ", " + who(holder);
    const button = make("button", { type: "button", "-aria-label": label }, "End …");
    button.dataset.act = "end " + holder.token;
    button.addEventListener("click", () => askToUnlock(lock.name, holder, who(holder)));
    return button;
  });
  const permits = lock.permits > 1 ? lock.holders.length + " of " + lock.permits + " permits" : "";
  return [make("th", { scope: "row", "-role": "rowheader" }, lock.name,
    make("span", { className: "sub" }, permits)),
  cell("Held by", ...(holders.length ? holders : ["nobody"])), cell("Waiting", lock.waiting + here),
  cell("Do", make("span", { className: "buttons" }, ...buttons))];
}

/** Fills a table row by row. A row that has not changed stays, and so does the focus in one that has. */
function fillTable(table, entries) {
  const body = table.tBodies[0];
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const rows = entries.map(({ key, cells, text }) => {
    const row = old.get(key) || make("tr", { "-role": "row", "-data-key": key });
    if (row.dataset.text !== text) {
      const focused = row.contains(document.activeElement) ? document.activeElement.dataset.act : null;
      row.replaceChildren(...cells());
      row.dataset.text = text;
      const again = focused && (row.querySelector('[data-act="' + focused + '"]') || row.querySelectorAll("button")[1]);
      if (again) again.focus();
    }
    return row;
  });
  if (rows.length !== body.rows.length || rows.some((row, at) => body.rows[at] !== row)) body.replaceChildren(...rows);
}

const LISTS = {
  jobs: (jobs) => {
    fillTable($("jobs"), jobs.map((job) => ({ key: job.job, text: JSON.stringify(job), cells: () => jobRow(job) })));
    return jobs.some((job) => job.paused) ? "All jobs are suspended." : jobs.length ? "" : "No jobs are configured.";
  },
  locks: ({ locks, more, next }) => {
    fillTable($("locks"),
      locks.map((lock) => ({ key: lock.name, text: JSON.stringify(lock), cells: () => lockRow(lock) })));
    if (next) return "There are more: `baton locks` shows them all.";
    return more ? more + " more are not shown."
      : locks.length ? "" : "No lock is held or waited for" + (next === null ? "." : " through this replica.");
  },
};

async function refreshList(name) {
  const list = lists[name];
  if (list.off || list.busy) return;
  list.busy = true;
  try {
    const response = await fetch(list.path, { headers: headers(), cache: "no-store" });
    // Not here at all: there is no use in asking again.
    if (response.status === 501) list.off = true;
    const note = response.ok ? LISTS[name](await response.json()) : await problemOf(response);
    write($("no-" + name), note);
    $("no-" + name).hidden = note === "";
    $(name).hidden = !response.ok || $(name).tBodies[0].rows.length === 0;
  } catch {
    // The stream says that nobody answers.
  } finally {
    list.busy = false;
  }
}

function refreshLists() {
  // Not behind the dialog: the button that it returns to stays.
  if (connected && !document.hidden && !$("confirm").open) Object.keys(LISTS).forEach(refreshList);
}

function forgetLists() {
  for (const name of Object.keys(LISTS)) {
    lists[name].off = false;
    $(name).hidden = true;
    $("no-" + name).hidden = false;
    write($("no-" + name), "Not known: not connected.");
  }
}

$("all-locks").addEventListener("change", ({ target }) => {
  lists.locks.path = target.checked ? "/locks?all=true" : "/locks";
  write($("locks-title"), target.checked ? "All locks of the store" : "Locks used through this replica");
  refreshLists();
});

// The connection

function setConnected(now, why = "") {
  if (now === connected && heardAt !== null && now) return;
  const was = connected;
  connected = now;
  const pill = $("connection");
  pill.className = now ? "pill good" : "pill bad";
  write(pill, now ? "● Connected" : "✖ Not connected");
  const since = heardAt === null ? "never heard of" : "last heard of at " + clockTime(heardAt);
  write($("trouble"), now ? "" : "Not connected: the sidecar was " + since + ". What is true now is not known here. "
    + "Trying again …" + (why ? " (" + why + ")" : ""));
  for (const role of roles.values()) paint(role);
  if (now && !was) refreshLists();
  if (!now && was) forgetLists();
}

function heard(event, data) {
  if (event === "roles") heardRoles(JSON.parse(data));
  if (event === "status") heardStatus(JSON.parse(data));
}

/** Reads Server-Sent Events until the stream ends or falls silent. fetch, not EventSource: that can carry no token. */
async function read(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const alarm = setTimeout(() => stream.abort(), SILENCE_MS);
    const { value, done } = await reader.read();
    clearTimeout(alarm);
    if (done) return;
    setConnected(true);
    heardAt = new Date();
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      let event = "message", data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) event = line.slice(6).trim();
        else if (line.startsWith("data:")) data += line.slice(5);
      }
      if (data) heard(event, data);
    }
  }
}

async function follow() {
  for (;;) {
    // A page that nobody sees asks for nothing: a browser has few connections for one listener.
    while (document.hidden) await new Promise((go) => addEventListener("visibilitychange", go, { once: true }));
    let why = "the stream has ended";
    stream = new AbortController();
    const alarm = setTimeout(() => stream.abort(), SILENCE_MS);
    try {
      const response = await fetch("/events?view=status", { headers: headers(), cache: "no-store",
        signal: stream.signal });
      clearTimeout(alarm);
      if (response.status === 401) {
        await askForToken(await problemOf(response));
        continue;
      }
      if (response.ok) await read(response);
      else why = await problemOf(response);
    } catch (error) {
      why = error.name === "AbortError" ? "it says nothing" : error.message;
    } finally {
      clearTimeout(alarm);
    }
    setConnected(false, why);
    await sleep(AGAIN_MS);
  }
}

document.addEventListener("visibilitychange", () => { if (document.hidden && stream) stream.abort(); });

async function askForToken(why) {
  setConnected(false, why);
  if (token !== null) write($("token-why"), "That token is not accepted: " + why + ". Give the content of the file "
    + "that api.tokenFile names.");
  $("token-form").hidden = false;
  $("token").focus();
  await new Promise((resolve) => { tokenGiven = resolve; });
  $("token-form").hidden = true;
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  if (tokenGiven) tokenGiven();
});

const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
setInterval(() => { for (const role of roles.values()) paint(role); }, calm ? 1000 : 200);
setInterval(refreshTimes, 1000);
setInterval(refreshLists, LISTS_MS);
follow();

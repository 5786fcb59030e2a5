"use strict";
// Shows the failures and tests that the page holds as JSON. All texts in it may come from anybody:
// they become nodes of text, and never markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const ROWS = 100;
  const FIELDS = ["reason", "kind", "owner", "file", "worker", "outcome"];
  const FAILED = new Set(["failed", "error"]);
  const find = (id) => document.getElementById(id);
  const numbers = new Intl.NumberFormat("en");

  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "onclick") node.addEventListener("click", value);
      else if (value !== null && value !== undefined && value !== false) {
        node.setAttribute(name, value === true ? "" : value);
      }
    }
    node.append(...children.filter((each) => each !== null && each !== undefined));
    return node;
  }

  function seconds(time) {
    if (time === null || time === undefined) return "";
    if (time < 1) return `${Math.round(time * 1000)} ms`;
    if (time < 10) return `${time.toFixed(1)} s`;
    const whole = Math.round(time);
    if (whole < 60) return `${whole} s`;
    const two = (large, unit, small, smallUnit) => `${large} ${unit}${small ? ` ${small} ${smallUnit}` : ""}`;
    if (whole < 3600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
    return two(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  }

  const count = (number, one, many) => `${numbers.format(number)} ${number === 1 ? one : many}`;

  // What is filtered: failures, and tests with the failures that they have.
  const failures = data.failures;
  const tests = (data.tests || []).map(([file, rest, outcome, start, time, worker]) => ({
    file: data.files[file], rest, outcome, start, time, worker: data.workers[worker], failed: [],
  }));
  const testOf = new Map(tests.map((test) => [test.file + test.rest, test]));
  failures.forEach((failure, number) => {
    failure.number = number;
    failure.file = data.files[failure.id[0]];
    failure.rest = failure.id[1];
    failure.nodeid = failure.file + failure.rest;
    const test = testOf.get(failure.nodeid);
    failure.outcome = test ? test.outcome : (failure.phase || "call") === "call" ? "failed" : "error";
    if (test) test.failed.push(failure);
    if (test && !failure.worker) failure.worker = test.worker;
  });
  // The cards are in the page. A row of theirs is opened by the script, because a thousand of them
  // would make the page slow, and without the script there is nothing in them.
  const lines = [...document.querySelectorAll(".contents li")];
  const cards = [...document.querySelectorAll(".cause")].map((node, index) => {
    const title = node.querySelector("summary").textContent;
    const rows = [...node.querySelectorAll(".tests > li")];
    for (const row of rows) Object.assign(failures[row.dataset.n], { title, row, card: node });
    return { node, rows, line: lines[index], owner: node.dataset.owner, isOpened: false, others: node.querySelector(".others"), times: node.querySelector(".times"),
      searched: node.textContent.toLowerCase(), codes: node.querySelector(":scope > .meta > .codes").textContent.split(" ") };
  });

  const state = { q: "" };
  for (const field of FIELDS) state[field] = "";
  let shownRows = ROWS;
  let isByTime = false;

  function readAddress() {
    const text = location.hash.slice(1);
    const given = new URLSearchParams(text.includes("=") ? text : "");
    for (const name of Object.keys(state)) state[name] = given.get(name) || "";
  }

  function writeAddress() {
    const given = new URLSearchParams();
    for (const [name, value] of Object.entries(state)) if (value) given.set(name, value);
    const hash = given.toString();
    const bare = location.pathname + location.search;
    try {
      history.replaceState(null, "", hash ? `#${hash}` : bare);
    } catch {
      if (hash) location.hash = hash; // a frame without an address of its own
    }
  }

  const haystack = (failure) => (failure.searched ??= [
    failure.nodeid, failure.said, failure.title, failure.message, failure.place, failure.rule,
  ].join("\n").toLowerCase());

  function isWanted(failure, words) {
    for (const field of FIELDS) {
      if (state[field] && failure[field] !== state[field]) return false;
    }
    return words.every((word) => haystack(failure).includes(word));
  }

  function isWantedTest(test, words) {
    if (test.failed.some((failure) => isWanted(failure, words))) return true;
    if (state.reason || state.kind || state.owner) return false;
    for (const field of ["file", "worker", "outcome"]) {
      if (state[field] && test[field] !== state[field]) return false;
    }
    if (!words.length) return true;
    test.searched ??= (test.file + test.rest).toLowerCase();
    return words.every((word) => test.searched.includes(word));
  }

  // The filters.
  const labels = { reason: "Reason", kind: "Kind", owner: "Owner", file: "File", worker: "Worker", outcome: "Outcome" };
  const selects = {};

  function makeFilters() {
    const form = find("filters");
    if (!form) return;
    for (const field of FIELDS) {
      const counts = new Map();
      const from = ["file", "worker", "outcome"].includes(field) && tests.length ? tests : failures;
      // An ending of the run has an owner, and no test that fails.
      const endings = field === "owner" ? cards.filter((card) => !card.rows.length) : [];
      for (const each of [...from, ...endings]) if (each[field]) counts.set(each[field], (counts.get(each[field]) || 0) + 1);
      if (counts.size < 2) continue;
      const names = [...counts.keys()].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
      const select = make("select", { id: `by-${field}` }, make("option", { value: "" }, "all"),
        ...names.map((name) => make("option", { value: name }, `${name} (${numbers.format(counts.get(name))})`)));
      select.addEventListener("change", () => change(field, select.value));
      selects[field] = select;
      find("selects").append(make("label", { for: select.id }, labels[field], select));
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    find("q").addEventListener("input", () => change("q", find("q").value));
    find("clear").addEventListener("click", clear);
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest("input, select, textarea");
      if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        find("q").focus();
      } else if (event.key === "Escape" && event.target === find("q") && state.q) {
        change("q", "");
        find("q").value = "";
      }
    });
    for (const node of document.querySelectorAll("#filters, #status")) node.hidden = false;
  }

  function clear() {
    for (const name of Object.keys(state)) state[name] = "";
    showFilters();
    change("q", "");
    find("q").focus();
  }

  function showFilters() {
    if (!find("q")) return;
    find("q").value = state.q;
    for (const [field, select] of Object.entries(selects)) select.value = state[field];
  }

  function change(name, value) {
    state[name] = value;
    shownRows = ROWS;
    writeAddress();
    apply();
  }

  let wanted = [];
  let wantedTests = [];

  function apply() {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const isFiltered = Object.values(state).some(Boolean);
    wanted = isFiltered ? failures.filter((each) => isWanted(each, words)) : failures;
    showCards(words, isFiltered);
    showFolded(isFiltered);
    wantedTests = isFiltered ? tests.filter((test) => isWantedTest(test, words)) : tests.slice();
    if (isByTime) wantedTests.sort((one, other) => (other.time || 0) - (one.time || 0));
    showRows();
    for (const row of document.querySelectorAll(".cases tbody tr")) {
      row.searched ??= row.textContent.toLowerCase();
      row.hidden = !words.every((word) => row.searched.includes(word));
    }
    if (find("status")) {
      find("status").textContent = statusWords(isFiltered);
      find("clear").hidden = !isFiltered;
    }
    document.dispatchEvent(new Event("filtered"));
  }

  function statusWords(isFiltered) {
    const causes = count(cards.filter((card) => !card.node.hidden).length, "cause", "causes");
    const words = [];
    if (isFiltered && failures.length) words.push(`${numbers.format(wanted.length)} of ${count(failures.length, "failure", "failures")}, ${causes}`);
    if (isFiltered && tests.length) words.push(`${numbers.format(wantedTests.length)} of ${count(tests.length, "test", "tests")}`);
    return words.join("; ");
  }

  // Causes and their failures.
  function badge(text, more) {
    return text ? make("span", { class: more ? `badge ${more}` : "badge" }, text) : null;
  }

  function showCards(words, isFiltered) {
    const kept = new Set(wanted);
    for (const card of cards) {
      let left = 0;
      let first = 0;
      for (const row of card.rows) {
        row.hidden = !kept.has(failures[row.dataset.n]);
        if (row.hidden) continue;
        left += 1;
        if (row.closest(".others") === null) first += 1;
      }
      card.node.hidden = isFiltered && (card.rows.length ? !left : !isWantedCard(card, words));
      if (card.times) card.times.textContent = `${numbers.format(isFiltered && card.rows.length ? left : Number(card.times.dataset.times))} ×`;
      if (card.line) {
        card.line.hidden = card.node.hidden;
        card.line.querySelector(".times").textContent = card.times.textContent;
      }
      if (card.others) {
        card.others.hidden = left === first;
        card.others.firstElementChild.textContent = `and ${numbers.format(left - first)} more`;
        const isNeeded = isFiltered && !first;
        if (isNeeded !== card.isOpened) card.others.open = card.isOpened = isNeeded;
      }
    }
  }

  // The entries of the list that are folded are shown where they are filtered.
  let isUnfolded = false;

  function showFolded(isFiltered) {
    const folded = document.querySelector(".contents details");
    if (!folded) return;
    const left = folded.querySelectorAll("li:not([hidden])").length;
    folded.hidden = !left;
    folded.firstElementChild.textContent = count(left, "more cause", "more causes");
    if (isFiltered !== isUnfolded) folded.open = isUnfolded = isFiltered;
  }

  // Of a cause that is no test's, such as an interrupted run.
  function isWantedCard(card, words) {
    return !["file", "worker", "outcome"].some((field) => state[field])
      && (!state.owner || card.owner === state.owner)
      && ["reason", "kind"].every((field) => !state[field] || card.codes.includes(state[field]))
      && words.every((word) => card.searched.includes(word));
  }

  function openable(row) {
    const node = row.firstElementChild;
    if (node.tagName === "DETAILS") return node;
    const details = make("details", { class: "failure" }, make("summary", {}, ...row.childNodes));
    details.addEventListener("toggle", () => {
      if (details.open && !details.lastElementChild.matches(".detail")) {
        details.append(make("div", { class: "detail" }, ...detailNodes(failures[row.dataset.n])));
      }
    });
    row.append(details);
    return details;
  }

  function detailNodes(failure) {
    const nodes = [];
    const label = `traceback of ${failure.nodeid}`;
    if (failure.shown) nodes.push(make("p", { class: "meta" }, "Its code is above."));
    else if (failure.own) {
      nodes.push(codeNode(failure.own, label), make("details", {},
        make("summary", {}, "With library frames"), codeNode(failure.traceback, label)));
    } else if (failure.traceback) nodes.push(codeNode(failure.traceback, label));
    else nodes.push(make("p", { class: "note" }, failure.message || (failure.only
      ? "The report has only the name of this failure: earlier failures used up the room."
      : "There is no traceback.")));
    const facts = [["at", failure.place], ["raised by", failure.origin], ["kind", failure.kind], ["type", failure.type],
      ["worker", failure.worker], ["attempts", failure.attempts], ["rule", failure.rule], ["marker", failure.marker]]
      .filter((each) => each[1])
      .map(([name, fact]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(fact))));
    nodes.push(make("dl", { class: "facts" }, ...facts));
    if (failure.run && !failure.shown) nodes.push(commandNode(failure.run));
    return nodes;
  }

  function codeNode(lines, label) {
    const spans = lines.map((number) => {
      const name = data.classes[number];
      return make("span", { class: name || null }, `${data.lines[number]}\n`);
    });
    return make("div", { class: "code", tabindex: "0", role: "group", "aria-label": label },
      make("pre", {}, ...spans));
  }

  function commandNode(command) {
    const code = make("code", {}, command);
    return make("p", { class: "command" }, code, copyButton(code));
  }

  function copyButton(code) {
    const button = make("button", { type: "button", "aria-label": `Copy ${code.textContent}` }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code); // no right to copy: the user's own keys have it
      }
    });
    return button;
  }

  // All tests.
  function showRows() {
    if (!find("rows")) return;
    find("rows").replaceChildren(...wantedTests.slice(0, shownRows).map(rowNode));
    const all = count(tests.length, "test", "tests");
    find("tests-status").textContent = wantedTests.length === tests.length ? all : `${numbers.format(wantedTests.length)} of ${all}`;
    const left = wantedTests.length - shownRows;
    find("more-tests").hidden = left <= 0;
    find("more-tests").textContent = `Show more (${numbers.format(left)})`;
  }

  function rowNode(test) {
    const outcome = test.outcome.replace("_", " ");
    const name = make("th", { scope: "row", class: "nodeid" });
    if (test.failed.length) {
      name.append(make("a", { href: "#causes", onclick: (event) => { event.preventDefault(); reveal(test.failed[0]); } }, test.file + test.rest));
    } else name.append(test.file + test.rest);
    return make("tr", {}, make("td", {}, badge(outcome, `outcome-${test.outcome}`)), name,
      make("td", {}, test.worker), make("td", { class: "number" }, seconds(test.time)));
  }

  // Opens a failure, whatever is filtered, and goes there.
  function reveal(failure) {
    if (!wanted.includes(failure)) {
      for (const name of Object.keys(state)) state[name] = "";
      showFilters();
      writeAddress();
    }
    apply();
    const details = openable(failure.row);
    for (let node = details; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    const summary = details.firstElementChild;
    summary.scrollIntoView({ block: "center" });
    summary.focus({ preventScroll: true });
  }

  // The timeline.
  const LANE = 26;
  const AXIS = 22;
  const NAMES = 64;
  const bars = [];

  function timeline() {
    const place = find("timeline");
    if (!place) return;
    const lanes = new Map(data.lanes.map(([name], index) => [name, index]));
    for (const test of tests) {
      if (test.start === null || test.time === null || test.outcome === "in_flight") continue;
      bars.push({ lane: lanes.get(test.worker), start: test.start, end: test.start + test.time, outcome: test.outcome, nodeid: test.file + test.rest, test });
    }
    for (const [lane, start, end, nodeid] of data.running) {
      bars.push({ lane: lanes.get(lane), start, end, outcome: "in_flight", nodeid, test: null });
    }
    bars.sort((one, other) => one.lane - other.lane || one.start - other.start);
    document.querySelector(".timeline").hidden = false;
    const canvas = find("canvas");
    let chosen = -1;
    let frame = 0;
    const redraw = () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(() => draw(canvas, chosen)); };
    const choose = (index) => { chosen = index; say(bars[index]); redraw(); };
    new ResizeObserver(redraw).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    document.addEventListener("filtered", redraw);
    addEventListener("beforeprint", () => draw(canvas, -1));
    canvas.addEventListener("pointermove", (event) => {
      const index = barAt(canvas, event);
      if (index !== chosen) choose(index);
    });
    canvas.addEventListener("click", () => show(bars[chosen]));
    place.addEventListener("keydown", (event) => {
      const next = afterKey(event.key, chosen);
      if (next !== null) { event.preventDefault(); choose(next); }
      if (event.key === "Enter") show(bars[chosen]);
    });
    draw(canvas, chosen);
  }

  function afterKey(key, chosen) {
    if (!bars.length) return null;
    if (key === "ArrowRight") return Math.min(bars.length - 1, chosen + 1);
    if (key === "ArrowLeft") return Math.max(0, chosen - 1);
    if (key === "Home") return 0;
    if (key === "End") return bars.length - 1;
    if (key !== "ArrowDown" && key !== "ArrowUp") return null;
    const bar = bars[Math.max(0, chosen)];
    const lane = bar.lane + (key === "ArrowDown" ? 1 : -1);
    const found = bars.findIndex((each) => each.lane === lane && each.end >= bar.start);
    return found < 0 ? Math.max(0, chosen) : found;
  }

  function say(bar) {
    find("at").textContent = !bar ? "" : `${bar.nodeid}: ${bar.outcome.replace("_", " ")}, from ${seconds(bar.start)} for ${seconds(bar.end - bar.start)}${data.lanes[bar.lane][0] ? ` on ${data.lanes[bar.lane][0]}` : ""}`;
  }

  function show(bar) {
    if (bar && bar.test && bar.test.failed.length) reveal(bar.test.failed[0]);
  }

  const scale = (canvas) => (canvas.clientWidth - names() - 12) / (data.end || 1);
  const names = () => (data.lanes.length > 1 || (data.lanes[0] && data.lanes[0][0]) ? NAMES : 8);

  function barAt(canvas, event) {
    const box = canvas.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top - AXIS) / LANE);
    const per = scale(canvas);
    const x = event.clientX - box.left - names();
    let best = -1;
    let nearest = 4;
    bars.forEach((bar, index) => {
      if (bar.lane !== lane) return;
      const away = Math.max(bar.start * per - x, x - bar.end * per, 0);
      if (away < nearest) { nearest = away; best = index; }
    });
    return best;
  }

  function step(end) {
    const about = (end || 1) / 6;
    const nice = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800];
    if (about > 1 && about <= 1800) return nice.find((each) => each >= about);
    const unit = about > 1 ? 3600 : 1;
    const power = unit * 10 ** Math.floor(Math.log10(about / unit));
    return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= about);
  }

  function draw(canvas, chosen) {
    const width = canvas.clientWidth;
    const height = AXIS + data.lanes.length * LANE + 6;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    const colors = { passed: color("passed"), xfailed: color("passed"), failed: color("failed"), error: color("failed"), flaky: color("flaky"), in_flight: color("running") };
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    const per = scale(canvas);
    const left = names();
    pen.fillStyle = color("soft");
    pen.strokeStyle = color("line");
    const by = step(data.end);
    for (let time = 0; time <= data.end; time += by) {
      const x = left + time * per;
      pen.fillRect(x, AXIS - 4, 1, 4);
      const words = seconds(time) === "0 ms" ? "0" : seconds(time);
      const room = width - (data.death === null ? 0 : 140);
      if (x + 3 + pen.measureText(words).width < room) pen.fillText(words, x + 3, 13);
    }
    data.lanes.forEach(([name], lane) => {
      const y = AXIS + lane * LANE;
      pen.fillStyle = color("inset");
      pen.fillRect(left, y + 3, data.end * per, LANE - 6);
      pen.fillStyle = color("soft");
      if (left === NAMES) pen.fillText(name || "pytest", 8, y + 17, NAMES - 14);
    });
    const kept = wantedTests.length === tests.length ? null : new Set(wantedTests);
    // Failures last, so that none is hidden by a test that began in the same pixel.
    const rank = (bar) => (FAILED.has(bar.outcome) ? 2 : bar.outcome === "passed" ? 0 : 1);
    for (const round of [0, 1, 2]) {
      bars.forEach((bar, index) => {
        if (rank(bar) !== round) return;
        const y = AXIS + bar.lane * LANE;
        const tall = round === 2 ? LANE - 4 : LANE - 10;
        const x = left + bar.start * per;
        const wide = Math.max(1, (bar.end - bar.start) * per - ((bar.end - bar.start) * per > 4 ? 1 : 0));
        pen.globalAlpha = kept && bar.test && !kept.has(bar.test) ? 0.15 : 1;
        pen.fillStyle = colors[bar.outcome] || color("skipped");
        pen.fillRect(x, y + (LANE - tall) / 2, wide, tall);
        if (index === chosen) {
          pen.strokeStyle = color("text");
          pen.lineWidth = 2;
          pen.strokeRect(x - 1, y + 1, wide + 2, LANE - 2);
        }
      });
    }
    pen.globalAlpha = 1;
    pen.fillStyle = color("bad");
    data.lanes.forEach(([, death], lane) => {
      if (death === null) return;
      const x = left + death * per;
      pen.fillRect(x + 1, AXIS + lane * LANE, 2, LANE);
      pen.fillText("died", x + 6 > width - 40 ? x - 28 : x + 6, AXIS + lane * LANE + 17);
    });
    if (data.death !== null) {
      const x = left + data.death * per;
      pen.fillStyle = color("bad");
      pen.fillRect(x, 0, 2, height);
      pen.textAlign = "right";
      pen.fillText(`died after ${seconds(data.death)}`, x - 5, 13);
      pen.textAlign = "left";
    }
  }

  // The parts of the page.
  for (const link of document.querySelectorAll(".top a, .skip, .contents a")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another tab or window
      const part = find(link.getAttribute("href").slice(1));
      event.preventDefault(); // the address keeps the filters
      if (part.tagName === "DETAILS") part.open = true;
      part.scrollIntoView();
      (part.tagName === "DETAILS" ? part.firstElementChild : part).focus({ preventScroll: true });
    });
  }
  const asked = location.hash.startsWith("#cause-") && find(location.hash.slice(1));
  if (asked) asked.open = true;
  for (const command of document.querySelectorAll(".command")) {
    command.append(copyButton(command.firstElementChild));
  }
  for (const code of document.querySelectorAll(".cause > .code")) {
    const here = [...code.querySelectorAll(".here")].pop();
    if (here) code.scrollTop = here.offsetTop - code.clientHeight / 3; // a long function ends in what failed
  }
  for (const { rows, others } of cards) {
    for (const row of rows) if (row.closest(".others") === null) openable(row);
    if (others) others.addEventListener("toggle", () => { for (const row of rows) openable(row); }, { once: true });
  }
  if (find("by-time")) {
    find("tests").hidden = false;
    find("more-tests").addEventListener("click", () => { shownRows += ROWS; showRows(); });
    find("by-time").addEventListener("click", () => {
      isByTime = !isByTime;
      find("by-time").closest("th").setAttribute("aria-sort", isByTime ? "descending" : "none");
      apply();
    });
  }
  addEventListener("hashchange", () => { readAddress(); showFilters(); apply(); });
  addEventListener("beforeprint", () => { for (const { node } of cards) node.open = true; });

  makeFilters();
  readAddress();
  showFilters();
  apply();
  timeline();
})();

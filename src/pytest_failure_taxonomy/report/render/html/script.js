"use strict";
// Shows the failures and tests that the page holds as JSON. All texts in it may come from anybody:
// they become nodes of text, and never markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 50;
  const FIRST = 10; // of a group beside others, which are to be seen, too
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
  data.groups.forEach((group) => {
    for (const number of group.members || []) failures[number].title = group.title;
  });

  const state = { q: "" };
  for (const field of FIELDS) state[field] = "";
  const opened = new Set();
  const openedFailures = new Set();
  let shownGroups = PAGE;
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
      for (const each of from) if (each[field]) counts.set(each[field], (counts.get(each[field]) || 0) + 1);
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
    shownGroups = PAGE;
    shownRows = ROWS;
    writeAddress();
    apply();
  }

  let wanted = [];
  let wantedTests = [];

  function apply() {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const isFiltered = Object.values(state).some(Boolean);
    wanted = data.groups
      .map((group, number) => ({ group, number, members: (group.members || []).map((each) => failures[each]).filter((each) => !isFiltered || isWanted(each, words)) }))
      .filter((each) => each.members.length || !isFiltered);
    wantedTests = isFiltered ? tests.filter((test) => isWantedTest(test, words)) : tests.slice();
    if (isByTime) wantedTests.sort((one, other) => (other.time || 0) - (one.time || 0));
    showGroups();
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
    const left = wanted.reduce((sum, each) => sum + each.members.length, 0);
    const whole = data.groups.reduce((sum, group) => sum + group.count, 0);
    const groups = count(wanted.length, "group", "groups");
    const words = [];
    if (isFiltered && failures.length) words.push(`${numbers.format(left)} of ${count(failures.length, "failure", "failures")}, ${groups}`);
    else if (failures.length) words.push(`${count(whole, "failure", "failures")}, ${groups}`);
    if (!isFiltered && whole > failures.length) words.push(`the report names ${numbers.format(failures.length)} of them`);
    if (isFiltered && tests.length) words.push(`${numbers.format(wantedTests.length)} of ${count(tests.length, "test", "tests")}`);
    return words.join("; ");
  }

  // Failures by group.
  function badge(text, more) {
    return text ? make("span", { class: more ? `badge ${more}` : "badge" }, text) : null;
  }

  function toggle(button, body, isOpen) {
    button.setAttribute("aria-expanded", String(isOpen));
    body.hidden = !isOpen;
  }

  function showGroups() {
    const place = find("groups");
    if (!place) return;
    if (wanted.length === 1) opened.add(wanted[0].number);
    const nodes = wanted.slice(0, shownGroups).map(groupNode);
    if (wanted.length > shownGroups) {
      nodes.push(make("button", { type: "button", class: "more", onclick: () => { shownGroups += PAGE; showGroups(); } },
        `Show more (${numbers.format(wanted.length - shownGroups)})`));
    }
    if (!wanted.length) nodes.push(make("p", { class: "note" }, "No failure is like that."));
    place.replaceChildren(...nodes);
  }

  function groupNode({ group, number, members }) {
    const body = make("div", { id: `group-${number}`, hidden: true });
    const shown = members.length === (group.members || []).length ? group.count : members.length;
    const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": body.id },
      make("span", { class: "times" }, `${numbers.format(shown)} ×`), make("span", { class: "title" }, group.title || group.kind));
    const fill = () => { if (!body.firstChild) showFailures(body, members, wanted.length > 1 ? FIRST : PAGE); };
    button.addEventListener("click", () => {
      const isOpen = body.hidden;
      if (isOpen) { opened.add(number); fill(); } else opened.delete(number);
      toggle(button, body, isOpen);
    });
    if (opened.has(number)) { fill(); toggle(button, body, true); }
    return make("article", { class: "group" }, make("h3", {}, button),
      make("p", { class: "meta" }, badge(group.reason), badge(group.kind),
        badge(group.owner && `code of: ${group.owner}`), badge(group.history, group.state)), body);
  }

  function showFailures(body, members, limit) {
    const more = members.length > limit ? make("button", { type: "button", class: "more", onclick: () => {
      const from = limit;
      showFailures(body, members, limit + PAGE);
      body.querySelectorAll(".failure > h4 > button")[from]?.focus();
    } }, `Show more (${numbers.format(members.length - limit)})`) : null;
    body.replaceChildren(make("ul", { class: "failures" }, ...members.slice(0, limit).map(failureNode)), ...(more ? [more] : []));
  }

  function failureNode(failure) {
    const body = make("div", { id: `failure-${failure.number}`, class: "detail", hidden: true });
    const name = failure.rest
      ? [make("span", { class: "file" }, failure.file), failure.rest] : [failure.file];
    const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": body.id },
      make("span", { class: "what" }, make("span", { class: "nodeid" }, ...name),
        failure.said && failure.said !== failure.title ? make("span", { class: "said" }, failure.said) : null),
      failure.phase && failure.phase !== "call" ? badge(failure.phase) : null,
      make("span", { class: "time" }, seconds(failure.seconds)));
    const fill = () => { if (!body.firstChild) body.append(...detailNodes(failure)); };
    button.addEventListener("click", () => {
      const isOpen = body.hidden;
      if (isOpen) { openedFailures.add(failure.number); fill(); } else openedFailures.delete(failure.number);
      toggle(button, body, isOpen);
    });
    if (openedFailures.has(failure.number)) { fill(); toggle(button, body, true); }
    return make("li", { class: "failure" }, make("h4", {}, button), body);
  }

  function detailNodes(failure) {
    const nodes = [];
    if (failure.traceback) nodes.push(codeNode(failure));
    else nodes.push(make("p", { class: "note" }, failure.message || (failure.only
      ? "The report has only the name of this failure: those before it have filled it."
      : "There is no traceback.")));
    const facts = [["at", failure.place], ["raised by", failure.origin], ["kind", failure.kind], ["type", failure.type],
      ["worker", failure.worker], ["attempts", failure.attempts], ["rule", failure.rule], ["marker", failure.marker]]
      .filter((each) => each[1])
      .map(([name, fact]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(fact))));
    nodes.push(make("dl", { class: "facts" }, ...facts));
    if (failure.run) nodes.push(commandNode(failure.run));
    return nodes;
  }

  function codeNode(failure) {
    const spans = failure.traceback.map((number) => {
      const name = data.names[data.classes[number]];
      return make("span", { class: name || null }, `${data.lines[number]}\n`);
    });
    return make("div", { class: "code", tabindex: "0", role: "group", "aria-label": `traceback of ${failure.nodeid}` },
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
      name.append(make("a", { href: "#failures", onclick: (event) => { event.preventDefault(); reveal(test.failed[0]); } }, test.file + test.rest));
    } else name.append(test.file + test.rest);
    return make("tr", {}, make("td", {}, badge(outcome, `outcome-${test.outcome}`)), name,
      make("td", {}, test.worker), make("td", { class: "number" }, seconds(test.time)));
  }

  // Opens a failure, whatever is filtered, and goes there.
  function reveal(failure) {
    const number = data.groups.findIndex((group) => (group.members || []).includes(failure.number));
    opened.add(number);
    openedFailures.add(failure.number);
    if (!wanted.some((each) => each.number === number && each.members.includes(failure))) {
      for (const name of Object.keys(state)) state[name] = "";
      showFilters();
      writeAddress();
    }
    apply();
    const at = wanted.findIndex((each) => each.number === number);
    if (at >= shownGroups) { shownGroups = at + 1; showGroups(); }
    const members = wanted[at].members;
    const index = members.indexOf(failure);
    if (index >= FIRST) showFailures(find(`group-${number}`), members, Math.max(PAGE, index + 1));
    const button = document.querySelector(`[aria-controls="failure-${failure.number}"]`);
    button.scrollIntoView({ block: "center" });
    button.focus({ preventScroll: true });
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
  for (const link of document.querySelectorAll(".top a, .skip")) {
    link.addEventListener("click", (event) => {
      const part = find(link.getAttribute("href").slice(1));
      event.preventDefault(); // the address keeps the filters
      part.scrollIntoView();
      part.focus({ preventScroll: true });
    });
  }
  for (const command of document.querySelectorAll(".steps .command")) {
    command.append(copyButton(command.firstElementChild));
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
  addEventListener("beforeprint", () => {
    for (const { number, members } of wanted.slice(0, shownGroups)) {
      opened.add(number);
      if (members.length) openedFailures.add(members[0].number);
    }
    showGroups();
  });

  makeFilters();
  readAddress();
  showFilters();
  if (data.groups.length) opened.add(0);
  const first = data.groups.flatMap((group) => (group.members || []).slice(0, 1))[0];
  if (first !== undefined) openedFailures.add(first);
  apply();
  timeline();
})();

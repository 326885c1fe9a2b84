// Keeps an open page up to date and moves through it by keys. Everything is
// there without it.
"use strict";
(() => {
  const page = document.body;
  const main = document.getElementById("main");
  const status = document.getElementById("status");
  const news = document.getElementById("news");
  document.documentElement.classList.add("script");

  // Times are counted from; the title has them as they are.
  const spell = (seconds) => {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    }
    return `${Math.floor(seconds)} s`;
  };
  const tellTimes = () => {
    const now = Date.now();
    for (const time of main.querySelectorAll("time")) {
      time.title ||= time.textContent;
      const gone = (now - Date.parse(time.dateTime)) / 1000;
      time.textContent = gone >= 0 ? `${spell(gone)} ago` : `in ${spell(-gone)}`;
    }
  };

  // Pieces of the page are replaced by newer ones. A list has the same version
  // while it has the same rows: then they are replaced one by one.
  const replace = (old, html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    const fresh = template.content.firstElementChild;
    if (!fresh) return 0;
    if (fresh.dataset.version !== old.dataset.version) return swap(old, fresh);
    let changed = 0;
    for (const row of fresh.querySelectorAll("[data-version]")) {
      const same = document.getElementById(row.id);
      if (same && same.dataset.version !== row.dataset.version) changed += swap(same, row);
    }
    return changed;
  };

  // What has the focus, what was unfolded, and how far a frame was scrolled stays so.
  const swap = (old, fresh) => {
    const frames = Array.from(old.querySelectorAll(".scroll[role]"), (frame) => ({
      selector: frame.id ? `#${CSS.escape(frame.id)}` : `.scroll[aria-label="${CSS.escape(frame.ariaLabel)}"]`,
      left: frame.scrollLeft, top: frame.scrollTop, height: frame.scrollHeight, active: frame === document.activeElement,
    }));
    for (const unfolded of old.querySelectorAll("details[id][open]")) {
      const same = fresh.querySelector(`#${CSS.escape(unfolded.id)}`);
      if (same) same.open = true;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    old.replaceWith(fresh);
    for (const { selector, left, top, height, active } of frames) {
      const frame = fresh.querySelector(selector);
      if (!frame) continue;
      frame.scrollLeft = left;
      // New lines come at the top: what is read below them stays where it is.
      if (top > 0) frame.scrollTop = top + Math.max(0, frame.scrollHeight - height);
      if (active) frame.focus({ preventScroll: true });
    }
    if (focused) fresh.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    fresh.classList.add("fresh");
    return 1;
  };

  // Tab stops at a frame only while it has more than it shows.
  const stopAtFrames = () => {
    for (const frame of main.querySelectorAll(".scroll[role]")) {
      const scrolls = frame.scrollWidth > frame.clientWidth || frame.scrollHeight > frame.clientHeight;
      if (scrolls) frame.tabIndex = 0;
      else if (frame !== document.activeElement) frame.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", stopAtFrames);
  addEventListener("load", stopAtFrames);
  main.addEventListener("toggle", stopAtFrames, true);

  const apply = ({ ids, fragments }) => {
    const shown = Array.from(main.querySelectorAll(":scope > section"), (part) => part.id);
    if (ids.join("\n") !== shown.join("\n")) {
      // The page has other parts now. What is written in a dialog is not lost by that.
      const dialog = document.querySelector("dialog[open]");
      if (dialog) dialog.addEventListener("close", () => location.reload(), { once: true });
      else location.reload();
      return;
    }
    let changed = 0;
    for (const { id, html } of fragments || []) {
      const old = document.getElementById(id);
      if (old) changed += replace(old, html);
    }
    if (changed === 0) return;
    tellTimes();
    markNew();
    stopAtFrames();
    announce(changed === 1 ? "1 part of the page changed" : `${changed} parts of the page changed`);
  };

  // Changes are told to screen readers at most every few seconds.
  let announced = 0;
  const announce = (text) => {
    if (Date.now() - announced < 5000) return;
    announced = Date.now();
    news.textContent = text;
  };

  const say = (text, lost) => {
    status.className = lost ? "lost" : "live";
    if (status.textContent !== text) status.textContent = text;
  };

  // One stream for each page that can be seen: a browser opens few at once.
  let source = null;
  let state = page.dataset.state;
  let retry = 0;
  const close = () => {
    clearTimeout(retry);
    source?.close();
    source = null;
  };
  const follow = () => {
    close();
    if (document.hidden || !page.dataset.self) return;
    const asked = new URLSearchParams({ of: page.dataset.self, have: state });
    source = new EventSource(`events?${asked}`);
    source.onopen = () => say("live", false);
    source.addEventListener("parts", (event) => {
      state = event.lastEventId;
      apply(JSON.parse(event.data));
    });
    source.addEventListener("problem", (event) => {
      const problem = JSON.parse(event.data);
      say(problem ? "cannot be read now" : "live", problem !== "");
      status.title = problem;
    });
    source.onerror = () => {
      say("no answer, trying again", true);
      if (source.readyState === EventSource.CLOSED) explain();
    };
  };
  // A stream that was refused does not say why; the page does.
  const explain = async () => {
    close();
    try {
      const answer = await fetch("./", { method: "HEAD" });
      if (answer.status === 401) {
        say(page.dataset.person ? "you are not logged in any more: load the page again" : "the server was started anew: lehr page prints a new link", true);
        return;
      }
    } catch {
      // It does not answer; told already.
    }
    retry = setTimeout(follow, 3000);
  };
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && follow());

  const step = (by) => {
    const links = Array.from(main.querySelectorAll(".list tbody th a, .graph svg a, .changes a, .causes > li > p a, .tree .name, .stages .name"));
    const at = links.indexOf(document.activeElement);
    const to = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1);
    links[to]?.focus();
  };
  const help = document.getElementById("help");
  const search = () => document.getElementById("find");
  const filter = () => main.querySelector("[data-search], .filter input");
  const enter = (field) => field && (field.focus(), field.select());
  // After g a second letter leads to a page.
  let goes = 0;
  const places = { h: "a.home", i: "nav a[href=inbox]", b: "nav a[href=board]", c: "nav a[href=calendar]", a: "nav a[href=audit]", x: "nav a[href=access]", v: "nav a[href=server]", s: "#find" };
  const partitionPlaces = { p: "", g: "/groups", n: "/incarnations", e: "/candidates", r: "/rollouts", d: "/delivery", w: "/workflows", o: "/orphans", m: "/documents", l: "/plugins", t: "/notifications" };
  const go = (letter) => {
    const partition = page.dataset.partition;
    if (Object.hasOwn(places, letter)) {
      const place = document.querySelector(`header ${places[letter]}`);
      place?.matches("input") ? enter(place) : place?.click();
    } else if (partition && Object.hasOwn(partitionPlaces, letter)) {
      document.querySelector(`header nav a[href="${CSS.escape(`partition/${partition}${partitionPlaces[letter]}`)}"]`)?.click();
    }
  };
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    n: () => main.querySelector("a[rel=next]")?.click(),
    u: () => main.querySelector("a[rel=up]")?.click(),
    "/": () => enter(search()),
    f: () => enter(filter()),
    v: () => openViews(),
    a: () => main.querySelector(".acts a, [data-act] input:not([type=hidden])")?.focus(),
    g: () => (goes = Date.now()),
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const writes = event.target.matches("input, select, textarea");
    if (writes && event.key === "Escape") event.target.blur();
    if (!writes && Date.now() - goes < 1500) {
      goes = 0;
      event.preventDefault();
      go(event.key);
      return;
    }
    if (writes || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.getElementById("help-button").addEventListener("click", keys["?"]);

  // Names that this browser keeps for addresses of pages. Whatever is found where it keeps them is shown as text, and
  // leads to no place but a page of this server.
  const views = document.getElementById("views");
  const viewsList = document.getElementById("views-list");
  const viewsNews = document.getElementById("views-news");
  const viewsForm = document.getElementById("views-form");
  const viewsKey = "lehr-views";
  const mostViews = 100;
  const viewLink = (view) => {
    const link = URL.canParse(view.address, document.baseURI) ? new URL(view.address, document.baseURI).href : "";
    return link.startsWith(document.baseURI) ? link : "";
  };
  const readViews = () => {
    try {
      const kept = JSON.parse(localStorage.getItem(viewsKey));
      return Array.isArray(kept) ? kept.filter((view) => typeof view?.name === "string" && typeof view.address === "string" && viewLink(view)).slice(0, mostViews) : [];
    } catch {
      return []; // The browser keeps nothing, or something else.
    }
  };
  const writeViews = (kept, done) => {
    try {
      localStorage.setItem(viewsKey, JSON.stringify(kept));
      viewsNews.textContent = done;
    } catch {
      viewsNews.textContent = "This browser keeps nothing for this page.";
    }
    showViews();
  };
  // The path of the pages is another after each start of the server, so what is kept begins after it.
  const thisView = () => {
    const here = new URL(location.href);
    for (const [key, value] of [...here.searchParams]) if (!value) here.searchParams.delete(key);
    here.hash = "";
    return here.href.slice(document.baseURI.length);
  };
  // First those of the partition that the page is about.
  const showViews = () => {
    const own = `partition/${page.dataset.partition || ""}`;
    const isOwn = (view) => [own, `${own}/`, `${own}?`].some((start, i) => (i ? view.address.startsWith(start) : view.address === start));
    const kept = readViews().sort((a, b) => isOwn(b) - isOwn(a) || a.name.localeCompare(b.name));
    viewsList.replaceChildren(...kept.map((view) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      const remove = document.createElement("button");
      link.href = viewLink(view);
      link.textContent = view.name;
      link.title = view.address;
      link.dir = "auto";
      if (view.address === thisView()) link.ariaCurrent = "page";
      remove.type = "button";
      remove.textContent = "remove";
      remove.ariaLabel = `remove ${view.name}`;
      remove.addEventListener("click", () => {
        writeViews(readViews().filter((other) => other.name !== view.name), `${view.name} is removed.`);
        (viewsList.querySelector("button") || viewsForm.elements.namedItem("name")).focus();
      });
      item.append(link, remove);
      return item;
    }));
    viewsList.hidden = kept.length === 0;
    document.getElementById("views-empty").hidden = kept.length > 0;
  };
  const openViews = () => {
    viewsNews.textContent = "";
    showViews();
    views.showModal();
  };
  document.getElementById("views-button").addEventListener("click", openViews);
  viewsForm.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = viewsForm.elements.namedItem("name");
    const name = field.value.trim();
    if (!name) return;
    const others = readViews().filter((view) => view.name !== name);
    if (others.length >= mostViews) {
      viewsNews.textContent = `At most ${mostViews} views are kept: remove one first.`;
      return;
    }
    field.value = "";
    writeViews([...others, { name, address: thisView() }], `${name} is saved.`);
  });
  addEventListener("storage", (event) => event.key === viewsKey && views.open && showViews());

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  });

  // What happened since this browser looked last at the first page. Without a store it is
  // not known, and nothing is marked.
  const markNew = () => {
    const since = document.getElementById("since");
    if (!since) return;
    try {
      const key = "lehr-looked";
      const looked = sessionStorage.getItem(key) || localStorage.getItem(key);
      sessionStorage.setItem(key, looked || new Date().toISOString());
      localStorage.setItem(key, new Date().toISOString());
      if (!looked) return;
      const rows = [...document.querySelectorAll("#happened tr[data-at]")];
      const fresh = rows.filter((row) => Date.parse(row.dataset.at) > Date.parse(looked));
      for (const row of fresh) row.classList.add("new");
      since.textContent = `${fresh.length} new since you looked last, ${spell((Date.now() - Date.parse(looked)) / 1000)} ago`;
    } catch {
      // The browser keeps nothing.
    }
  };

  // What is printed is as of now while the page is live, and else as of when it was read last.
  addEventListener("beforeprint", () => {
    const asOf = document.getElementById("as-of");
    if (!asOf || status.className !== "live") return;
    asOf.dateTime = new Date().toISOString();
    asOf.title = `${asOf.dateTime.slice(0, 19).replace("T", " ")} UTC`;
  });

  // A form is sent once; the server sees to that too.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-act]")) return;
    for (const button of event.target.querySelectorAll("button")) setTimeout(() => (button.disabled = true));
  });
  main.querySelector("[data-first]")?.focus();

  tellTimes();
  markNew();
  stopAtFrames();
  setInterval(() => document.hidden || tellTimes(), 1000);
  follow();
})();

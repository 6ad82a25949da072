"use strict";
// Lines of CUDA and of PTX that belong together. Without this script the page still shows them all.
(() => {
  const asides = { cuda: /^\s*\/\//, ptx: /^\s*(\/\/|\.)/ };

  function lined(pre, origin) {
    const kind = pre.classList.contains("cuda") ? "cuda" : "ptx";
    const lines = pre.textContent.split("\n");
    if (lines.length && lines[lines.length - 1] === "") lines.pop();
    const all = document.createDocumentFragment();
    const spans = lines.map((text, i) => {
      const span = document.createElement("span");
      span.className = asides[kind].test(text) ? "line aside" : "line";
      span.dataset.n = i + 1;
      span.textContent = text || " ";
      if (origin && origin[i + 1]) span.title = origin[i + 1];
      all.append(span);
      return span;
    });
    pre.replaceChildren(all);
    pre.classList.add("lined");
    return [null, ...spans];
  }

  function origins(data) {
    const found = [];
    for (const [first, count, file, line] of data.from)
      for (let i = 0; i < count; i++) found[first + i] = data.files[file] + ":" + (line + i);
    return found;
  }

  // For each side and line: lines of the other side, near ones (callers of inlined code) apart.
  function relations(data) {
    const toCuda = new Map(), toPtx = new Map();
    for (const [first, count, chain] of data.of) {
      const cuda = data.chains[chain];
      for (let line = first; line < first + count; line++) {
        toCuda.set(line, { hits: [cuda[0]], near: cuda.slice(1) });
        cuda.forEach((at, depth) => {
          const entry = toPtx.get(at) || { hits: [], near: [] };
          (depth ? entry.near : entry.hits).push(line);
          toPtx.set(at, entry);
        });
      }
    }
    return { ptx: toCuda, cuda: toPtx };
  }

  function reveal(pre, span) {
    pre.scrollTop = span.offsetTop - pre.offsetTop - pre.clientHeight / 3;
  }

  function connect(code) {
    const data = JSON.parse(code.querySelector("script").textContent);
    const pres = { cuda: code.querySelector(".cuda"), ptx: code.querySelector(".ptx") };
    const spans = { cuda: lined(pres.cuda, origins(data)), ptx: lined(pres.ptx) };
    const related = relations(data);
    let pinned = null;
    for (const side of ["cuda", "ptx"])
      for (const line of related[side].keys()) spans[side][line]?.classList.add("linked");

    function clear() {
      for (const span of code.querySelectorAll(".hit, .near, .here"))
        span.classList.remove("hit", "near", "here");
    }
    function show(side, line) {
      clear();
      const other = side === "cuda" ? "ptx" : "cuda";
      const entry = related[side].get(line);
      spans[side][line]?.classList.add("here");
      if (!entry) return null;
      spans[side][line]?.classList.add("hit");
      for (const at of entry.near) spans[other][at]?.classList.add("near");
      for (const at of entry.hits) spans[other][at]?.classList.add("hit");
      return spans[other][entry.hits[0] ?? entry.near[0]];
    }
    function pin(side, line) {
      pinned = [side, line];
      const target = show(side, line);
      if (target) reveal(pres[side === "cuda" ? "ptx" : "cuda"], target);
    }
    function release() {
      pinned = null;
      clear();
    }

    for (const side of ["cuda", "ptx"]) {
      const pre = pres[side];
      const lineAt = (event) => Number(event.target.closest(".line")?.dataset.n || 0);
      pre.addEventListener("mouseover", (event) => {
        if (!pinned && lineAt(event)) show(side, lineAt(event));
      });
      pre.addEventListener("mouseleave", () => { if (!pinned) clear(); });
      pre.addEventListener("click", (event) => {
        const line = lineAt(event);
        if (!line || String(getSelection())) return;
        if (pinned && pinned[0] === side && pinned[1] === line) release();
        else pin(side, line);
      });
      pre.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (event.key === "Escape") return release();
        if (!step && event.key !== "Enter") return;
        event.preventDefault();
        const from = pinned && pinned[0] === side ? pinned[1] : first(side) - (step || 0);
        const line = Math.min(Math.max(from + (step || 0), 1), spans[side].length - 1);
        pin(side, line);
        const span = spans[side][line], top = span.offsetTop - pre.offsetTop;
        if (top < pre.scrollTop) pre.scrollTop = top;
        if (top + span.offsetHeight > pre.scrollTop + pre.clientHeight)
          pre.scrollTop = top + span.offsetHeight - pre.clientHeight;
      });
    }
    function first(side) {
      const lines = [...related[side].keys()];
      return lines.length ? Math.min(...lines) : 1;
    }
    // To the kernel itself, behind what it includes.
    const head = spans.cuda.findIndex((span) => span && span.textContent.includes("__global__"));
    const body = spans.ptx.findIndex((span) => span && span.textContent.includes(".entry"));
    for (const [side, line] of [["cuda", head], ["ptx", body]])
      if (line > 0) pres[side].scrollTop = spans[side][line].offsetTop - pres[side].offsetTop - 6;
  }

  function open(details) {
    const code = details.querySelector(".code");
    if (code && !code.dataset.ready) {
      code.dataset.ready = "yes";
      connect(code);
    }
  }
  for (const keys of document.querySelectorAll(".keys")) keys.hidden = false;
  for (const details of document.querySelectorAll(".kernel")) {
    if (details.open) open(details);
    details.addEventListener("toggle", () => { if (details.open) open(details); });
  }
  for (const canvas of document.querySelectorAll(".canvas")) {
    const svg = canvas.querySelector("svg"), width = svg.width.baseVal.value;
    const top = svg.querySelector(".step rect, .node rect");
    if (top && width > canvas.clientWidth) {
      const first = [...svg.querySelectorAll("rect")].reduce((a, b) =>
        b.y.baseVal.value < a.y.baseVal.value ? b : a, top);
      canvas.scrollLeft = first.x.baseVal.value + first.width.baseVal.value / 2 - canvas.clientWidth / 2;
    }
    if (width <= canvas.clientWidth && svg.height.baseVal.value <= canvas.clientHeight) continue;
    const button = document.createElement("button");
    button.textContent = "Fit";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      const fit = canvas.classList.toggle("fit");
      button.textContent = fit ? "Full size" : "Fit";
      button.setAttribute("aria-pressed", String(fit));
    });
    canvas.previousElementSibling?.closest("figure").querySelector("figcaption").append(button);
  }
  function follow() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", follow);
  follow();
})();

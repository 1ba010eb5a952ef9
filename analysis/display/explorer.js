"use strict";
(() => {
  const {levels, questions} = JSON.parse(document.getElementById("explorer-data").textContent);
  const box = document.getElementById("explorer");
  const AT_ONCE = 20;
  const percent = (value) => value === null ? "–" : (100 * value).toFixed(1) + "%";
  const judged = (right) => right === null ? "not labelled" : right ? "right" : "wrong";

  function element(tag, text = "", properties = {}) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(text);
    return made;
  }
  function choice(label, names) {
    const select = element("select");
    names.forEach((name, place) => select.append(element("option", name, {value: place})));
    form.append(element("label", label));
    form.lastChild.append(select);
    return select;
  }
  function share(label, value) {
    const input = element("input", "", {type: "number", min: 0, max: 100, value});
    form.append(element("label", label));
    form.lastChild.append(input);
    return input;
  }
  function row(cells, tag = "td") {
    const made = element("tr");
    made.append(...cells.map((cell) => element(tag, cell)));
    return made;
  }

  const form = element("form");
  const least = share("probability from, %", 0), most = share("to, %", 100);
  const right = choice("answer", ["any", "right", "wrong", "not labelled"]);
  const level = choice("level", ["any", ...levels]);
  const says = choice("it says", ["anything", "the same answer", "another answer", "nothing"]);
  const order = choice("order", ["surest first", "least sure first", "as in the file"]);
  const shown = element("p", "", {className: "under"});
  const body = element("tbody"), table = element("table"), head = element("thead");
  head.append(row(["question", "probability", "answer", "verdict", "right answer"], "th"));
  table.append(head, body);
  const scroll = element("div", table, {className: "scroll", tabIndex: 0});
  const more = element("button", "show more", {type: "button"});
  box.append(form, shown, scroll, more);
  box.hidden = false;
  let limit = AT_ONCE;

  function chosen() {
    const wanted = [null, true, false, null][right.value], said = Number(says.value), own = level.value - 1;
    const found = questions.filter((one) => {
      const p = one.p === null ? 0 : 100 * one.p;
      if (p < least.value || p > most.value) return false;
      if (right.value > 0 && one.right !== wanted) return false;
      const reports = own < 0 ? one.reports : one.reports.filter((report) => report[0] === own);
      if (said === 3) return own < 0 ? one.reports.length < levels.length : !reports.length;
      return !said || reports.some((report) => (report[1] === one.answer) === (said === 1));
    });
    if (order.value < 2) found.sort((a, b) => (order.value > 0 ? 1 : -1) * ((a.p ?? 0) - (b.p ?? 0)));
    return found;
  }
  function told(one) {
    const inner = element("table"), cell = element("td", one.text ?? "", {colSpan: 5});
    inner.append(row(["level", "answer", "confidence stated"], "th"));
    one.reports.forEach(([place, answer, stated]) => inner.append(row([levels[place], answer, percent(stated)])));
    cell.append(one.reports.length ? inner : element("p", "Who said what is shown where the observations are given (--obs)."));
    const made = element("tr");
    made.append(cell);
    return made;
  }
  function draw() {
    const found = chosen();
    body.replaceChildren();
    for (const one of found.slice(0, limit)) {
      const name = element("button", one.id, {type: "button", className: "open"});
      const line = row([name, percent(one.p), one.answer ?? "–", judged(one.right), one.gold ?? "–"]);
      name.setAttribute("aria-expanded", "false");
      name.onclick = () => {
        const open = name.getAttribute("aria-expanded") === "true";
        name.setAttribute("aria-expanded", String(!open));
        if (open) line.nextSibling.remove(); else line.after(told(one));
      };
      body.append(line);
    }
    const known = found.filter((one) => one.right !== null && one.p !== null);
    const n = known.filter((one) => one.right).length;
    shown.textContent = `${found.length} of ${questions.length} questions` + (known.length ? `; ${percent(n / known.length)} of ${known.length} answers right` : "") + ". Choose a question to see who said what.";
    more.hidden = found.length <= limit;
  }
  form.onsubmit = (event) => event.preventDefault();
  form.oninput = () => { limit = AT_ONCE; draw(); };
  more.onclick = () => { limit += AT_ONCE; draw(); };
  draw();
})();

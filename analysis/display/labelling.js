"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const {questions} = data;
  const key = `direag label ${data.set}`;
  const part = (id) => document.getElementById(id);
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  // What this browser has kept of this set: by question, its right answers, and those that the table had before.
  let kept = new Map();
  try {
    kept = new Map(JSON.parse(localStorage.getItem(key) ?? "[]"));
  } catch {
    part("kept").textContent = "This browser keeps nothing. Save the table before you close the page.";
  }
  const right = questions.map((one) => {
    const [now, before] = kept.get(one.name) ?? [one.right, one.right];
    return same(before, one.right) ? now : one.right;
  });
  const isOpen = (at) => right[at] === null;
  const firstOpen = () => {
    const at = questions.findIndex((_, place) => isOpen(place));
    return at < 0 ? questions.length : at;
  };
  let at = firstOpen();

  function label(answers) {
    right[at] = answers;
    kept.set(questions[at].name, [answers, questions[at].right]);
    try {
      localStorage.setItem(key, JSON.stringify([...kept]));
      part("kept").textContent = "";
    } catch {
      part("kept").textContent = "This browser keeps nothing. Save the table before you close the page.";
    }
  }
  function choose(answer) {
    const before = right[at] ?? [], isChosen = before.includes(answer);
    if (!data.by_answer) {
      label(isChosen ? null : [answer]);
      return isChosen ? show() : go(at + 1);
    }
    const rest = before.filter((one) => one !== answer);
    label(isChosen ? (rest.length ? rest : null) : [...rest, answer]);
    return show();
  }
  function chooseNone() {
    const isChosen = same(right[at], []);
    label(isChosen ? null : []);
    return isChosen ? show() : go(at + 1);
  }
  function go(to) {
    at = Math.min(Math.max(to, 0), questions.length);
    show();
    scrollTo({top: 0, behavior: "instant"});
  }

  function button(key, text, isPressed, act) {
    const made = document.createElement("button"), name = document.createElement("span");
    made.type = "button";
    made.setAttribute("aria-pressed", String(isPressed));
    name.textContent = text;
    const sign = document.createElement("kbd");
    sign.textContent = key;
    sign.hidden = key === "";
    made.append(sign, name);
    made.onclick = act;
    return made;
  }
  function show() {
    const n = questions.filter((_, place) => !isOpen(place)).length, isEnd = at === questions.length;
    const where = isEnd ? "" : `Question ${at + 1} of ${questions.length} · `;
    part("progress").textContent = `${where}${n} labelled`;
    Object.assign(part("bar"), {max: questions.length, value: n});
    part("question").hidden = isEnd;
    part("end").hidden = !isEnd;
    part("back").disabled = at === 0;
    part("next").disabled = isEnd;
    part("save").className = isEnd ? "main" : "";
    part("next").textContent = isEnd || isOpen(at) ? "Skip" : "Next";
    if (isEnd) {
      part("count").textContent = `${n} of ${questions.length} questions are labelled.`;
      part("open").hidden = n === questions.length;
      return;
    }
    const one = questions[at], chosen = right[at] ?? [];
    part("text").textContent = one.text || one.title;
    part("title").textContent = one.text ? one.title : "";
    const buttons = one.answers.map((answer, place) =>
      button(one.keys[place], one.shown[place], chosen.includes(answer), () => choose(answer)));
    const none = button("0", "None of these", same(right[at], []), chooseNone);
    none.className = "none";
    part("answers").replaceChildren(...buttons, none);
    if (!data.by_answer) part("other").value = chosen.find((answer) => !one.answers.includes(answer)) ?? "";
  }

  // A cell of the table for each label; an empty one where there is none.
  function written(place) {
    const one = questions[place], chosen = right[place];
    if (chosen === null) return one.rows.map(() => "");
    if (data.by_answer) return one.answers.map((answer) => String(chosen.includes(answer)));
    return one.rows.map(() => chosen[0] ?? data.none);
  }
  function table() {
    const rows = data.rows.map((cells) => [...cells]);
    questions.forEach((one, place) => {
      written(place).forEach((cell, number) => { rows[one.rows[number]][data.column] = cell; });
    });
    const quoted = (cell) => /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
    return "\ufeff" + [data.header, ...rows].map((cells) => cells.map(quoted).join(",") + "\n").join("");
  }
  function save() {
    const url = URL.createObjectURL(new Blob([table()], {type: "text/csv;charset=utf-8"}));
    Object.assign(document.createElement("a"), {href: url, download: data.file}).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    part("kept").textContent = `Saved as ${data.file} among your downloads.`;
  }

  // A page from a file may not write to the clipboard; a selection can still be copied.
  async function copy() {
    getSelection().selectAllChildren(part("then"));
    try {
      await navigator.clipboard.writeText(part("then").textContent);
    } catch {
      document.execCommand("copy");
    }
    part("copy").textContent = "Copied";
  }

  part("copy").onclick = copy;
  part("back").onclick = () => go(at - 1);
  part("next").onclick = () => go(at + 1);
  part("open").onclick = () => go(firstOpen());
  part("save").onclick = save;
  if (!data.by_answer) {
    part("other").onchange = () => {
      const text = part("other").value.trim();
      label(text ? [text] : null);
      show();
    };
  }
  document.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.id === "other") {
      if (event.key !== "Enter" || event.isComposing) return;
      event.target.blur();
      return go(at + 1);
    }
    if (event.key === "ArrowRight") go(at + 1);
    if (event.key === "ArrowLeft") go(at - 1);
    if (at === questions.length || event.repeat) return;
    if (event.key === "0") chooseNone();
    const place = questions[at].keys.indexOf(event.key.toUpperCase());
    if (place >= 0) choose(questions[at].answers[place]);
  };
  show();
})();

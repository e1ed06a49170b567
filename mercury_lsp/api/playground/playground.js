// The playground: sends a hole or a selection to /v1/fim/completions with our own `canvas` field, keeps every draft,
// and draws the one the slider stands at. It knows nothing about how drafts come about.

import { createEditor } from "./editor.js";

const $ = (id) => document.getElementById(id);
const MASK = "░";
const AROUND = 6; // lines of context shown on each side of the canvas

const SAMPLES = {
  "Fill a function": ["python", `import re


def slugify(title: str) -> str:
    """Lower case, words joined by single dashes, nothing else."""
    ‸


print(slugify("Hello, World!"))
`],
  "Finish a loop": ["javascript", `function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) {
    ‸
  }
  return groups;
}
`],
  "Write a match": ["rust", `enum Shape {
    Circle(f64),
    Square(f64),
}

fn area(shape: &Shape) -> f64 {
    match shape {
        ‸
    }
}
`],
  "Rewrite a selection": ["python", `def total(prices):
‸    result = 0
    for i in range(len(prices)):
        result = result + prices[i]
    return result
‸

print(total([1, 2, 3]))
`],
};
const POLICIES = ["auto", "check", "threshold", "remask", "edit", "entropy", "factor", "greedy"];
const LANGUAGES = ["python", "javascript", "typescript", "rust", "go", "java", "c", "cpp"];

let drafts = [];
let frame = null; // what stood around the canvas when the run began
let abort = null;
let playing = null;

const editor = createEditor($("editor"), "", { onRun: run, onChange: () => ($("insert").disabled = true) });

function fillSelect(select, names) {
  select.replaceChildren(...names.map((name) => new Option(name, name)));
}

function load(name) {
  const [language, marked] = SAMPLES[name];
  const from = marked.indexOf("‸");
  const second = marked.indexOf("‸", from + 1);
  editor.set(marked.replaceAll("‸", ""), from, second < 0 ? from : second - 1);
  $("language").value = language;
  editor.language(language);
  $("instruction").value = second < 0 ? "" : "Use the builtin sum.";
}

async function health() {
  try {
    const body = await (await fetch("health")).json();
    $("health").textContent = body.state === "ready" ? `${body.model} on ${body.device}` : `${body.state}: ${body.message}`;
    if (body.state === "loading") setTimeout(health, 700);
  } catch {
    $("health").textContent = "the server does not answer";
  }
}

async function run() {
  abort?.abort();
  stopPlaying();
  const controller = (abort = new AbortController());
  const text = editor.text();
  const { from, to } = editor.selection();
  frame = { prefix: text.slice(0, from), suffix: text.slice(to), from, to, began: performance.now() };
  drafts = [];
  setBusy(true, "waiting for the model…");
  if (matchMedia("(max-width: 820px)").matches) $("canvas").scrollIntoView({ block: "center" });
  const body = {
    model: "mercury-edit-2", prompt: frame.prefix, suffix: frame.suffix, language: $("language").value,
    max_tokens: Number($("tokens").value) || 64, reasoning_effort: $("effort").value, policy: $("policy").value,
    stream: true, diffusing: true, canvas: true,
  };
  if (from !== to) Object.assign(body, { original: text.slice(from, to), instruction: $("instruction").value });
  const headers = { "content-type": "application/json" };
  if ($("key").value) headers.authorization = `Bearer ${$("key").value}`;
  try {
    const response = await fetch("v1/fim/completions", {
      method: "POST", headers, body: JSON.stringify(body), signal: controller.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response)) take(event);
    setBusy(false, frame.problem ?? "done");
  } catch (error) {
    if (controller === abort) setBusy(false, error.name === "AbortError" ? "stopped" : error.message);
  }
  if (controller === abort) {
    abort = null;
    $("insert").disabled = !drafts.length || frame.final === undefined;
    draw();
  }
}

async function* events(response) {
  let rest = "";
  for await (const chunk of readable(response.body.pipeThrough(new TextDecoderStream()))) {
    const parts = (rest + chunk).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part !== "data: [DONE]") yield JSON.parse(part.slice(6));
  }
}

async function* readable(stream) {
  const reader = stream.getReader();
  for (let item; !(item = await reader.read()).done; ) yield item.value;
}

function take(event) {
  if (event.error) throw new Error(event.error.message);
  const choice = event.choices[0];
  const own = event.mercury;
  if (own?.slots) {
    drafts.push({ ...own, at: performance.now() - frame.began });
    setSlider(drafts.length - 1);
    draw();
    $("phase").textContent = own.open ? `${own.open} slots masked` : "denoising…";
  } else if (choice.text) {
    drafts.push({ ...drafts.at(-1), text: choice.text, slots: [[choice.text, "settled", 1, 0]], at: performance.now() - frame.began });
  }
  if (choice.finish_reason) {
    frame.final = drafts.at(-1)?.text;
    frame.reason = choice.finish_reason;
    frame.verdict = own?.valid;
    frame.usage = own?.usage;
    frame.problem = event.warning ?? undefined;
  }
}

function setBusy(busy, phase) {
  $("run").disabled = busy;
  $("stop").disabled = !busy;
  $("phase").textContent = phase;
}

function setSlider(value) {
  const slider = $("step");
  slider.max = Math.max(0, drafts.length - 1);
  slider.value = value;
  slider.disabled = $("play").disabled = drafts.length < 2;
}

function draw() {
  const index = Number($("step").value);
  const draft = drafts[index];
  if (!draft) return;
  const before = drafts[index - 1];
  const nodes = [span("context", frame.prefix.split("\n").slice(-AROUND).join("\n"))];
  nodes.push(...slotNodes(draft, before), span("context", frame.suffix.split("\n").slice(0, AROUND).join("\n")));
  const canvas = $("canvas");
  canvas.replaceChildren(...nodes);
  const last = [...canvas.querySelectorAll(".mask, .token")].at(-1);
  if (last) canvas.scrollTop = Math.max(0, last.offsetTop - canvas.offsetTop - canvas.clientHeight / 2);
  $("step-label").textContent = `step ${index + 1} of ${drafts.length}`;
  figures(draft);
}

function slotNodes(draft, before) {
  return draft.slots.map(([text, state, confidence, revised], i) => {
    if (state === "masked") return span("mask", MASK);
    const old = before?.slots[i];
    const node = span(`token ${state}`, text);
    node.style.setProperty("--hue", Math.round(8 + 142 * confidence ** 2));
    node.title = `${state}, confidence ${Math.round(100 * confidence)}%${revised ? ", revised" : ""}`;
    if (revised || (old && old[1] !== "masked" && old[0] !== text)) node.classList.add("revised");
    else if (!old || old[1] === "masked") node.classList.add("new");
    return node;
  });
}

function span(name, text) {
  const node = document.createElement("span");
  node.className = name;
  node.textContent = text;
  return node;
}

function figures(draft) {
  const sequential = draft.tokens + 1; // one pass a token, and one that says that it is over
  $("forwards").textContent = draft.forwards;
  $("sequential").textContent = sequential;
  const most = Math.max(draft.forwards, sequential, 1);
  $("bar-forwards").style.width = `${(100 * draft.forwards) / most}%`;
  $("bar-sequential").style.width = `${(100 * sequential) / most}%`;
  const started = drafts.find((d) => d.text)?.at ?? 0;
  const seconds = (draft.ms?.total ? draft.ms.total - (draft.ms.prefill ?? 0) : draft.at) / 1000;
  $("speed").textContent = seconds > 0 && draft.tokens ? (draft.tokens / seconds).toFixed(1) : "–";
  $("first").textContent = started ? `${(started / 1000).toFixed(2)} s` : "–";
  const verdict = frame.verdict; // of the finished text, whatever step is shown
  $("syntax").textContent = verdict === undefined || verdict === null ? "–" : verdict ? "✓ valid" : "✗ worse";
  $("syntax").className = verdict === undefined || verdict === null ? "" : verdict ? "good" : "bad";
}

function stopPlaying() {
  clearInterval(playing);
  playing = null;
  $("play").textContent = "▶";
  $("play").setAttribute("aria-label", "Play the steps");
}

function play() {
  if (playing) return stopPlaying();
  if (Number($("step").value) === drafts.length - 1) $("step").value = 0;
  draw();
  $("play").textContent = "❚❚";
  $("play").setAttribute("aria-label", "Pause");
  playing = setInterval(() => {
    const next = Number($("step").value) + 1;
    if (next >= drafts.length) return stopPlaying();
    $("step").value = next;
    draw();
  }, 350);
}

fillSelect($("sample"), Object.keys(SAMPLES));
fillSelect($("language"), LANGUAGES);
fillSelect($("policy"), POLICIES);
$("sample").addEventListener("change", () => load($("sample").value));
$("language").addEventListener("change", () => editor.language($("language").value));
$("run").addEventListener("click", run);
$("stop").addEventListener("click", () => abort?.abort());
$("insert").addEventListener("click", () => {
  editor.replace(frame.from, frame.to, frame.final);
  $("insert").disabled = true;
  editor.focus();
});
$("step").addEventListener("input", () => (stopPlaying(), draw()));
$("play").addEventListener("click", play);
load(Object.keys(SAMPLES)[0]);
health();

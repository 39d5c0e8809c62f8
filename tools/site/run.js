/**
 * Buttons that run the examples of a page of the documentation, which the site's own copy of heed computes. The blocks of a page are one program: a button runs those up to its
 * own in a new worker, which has no access to the page, and shows what its own prints.
 */
const site = new URL('..', import.meta.url);

/** Blocks need more than a page without files and servers has. */
const elsewhere =
  /node:|\bprocess\.|\bdocument\.|['"`]\.{0,2}\/|https?:\/\/|new Worker|worker: |cache: true|fromPretrained\(source\b/;
const entries = /from '(heed(?:\/(?:train|util|lens|evaluation|draw))?)';/g;

const codeOf = (block) => {
  const copy = block.cloneNode(true);
  for (const line of copy.querySelectorAll('br')) line.replaceWith('\n');
  return copy.textContent;
};

const blocks = [...document.querySelectorAll('pre > code.js')];
const codes = blocks.map(codeOf);
let running;

for (const [i, block] of blocks.entries()) {
  const before = codes.slice(0, i + 1);
  const others = before.join('\n').replaceAll(entries, '');
  if (elsewhere.test(others) || /^import /m.test(others.replaceAll(/^import \{[^}]*\} *$/gm, ''))) break; // and so do those that follow
  const button = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Run' });
  button.className = 'run-example';
  const output = document.createElement('pre');
  output.className = 'run-output';
  output.setAttribute('role', 'status');
  output.hidden = true;
  button.addEventListener('click', () => {
    const stopped = running;
    running?.end();
    if (stopped?.button !== button) run(before, i, button, output);
  });
  block.parentElement.after(button, output);
}

function run(before, until, button, output) {
  const worker = new Worker(new URL('run-worker.js', import.meta.url), { type: 'module' });
  const end = () => {
    worker.terminate();
    running = undefined;
    button.textContent = 'Run';
    button.dataset.state = 'ended';
  };
  running = { button, end };
  button.textContent = 'Stop';
  button.dataset.state = 'running';
  output.hidden = false;
  output.textContent = '';
  worker.onmessage = ({ data }) => {
    if (data.text !== undefined) output.textContent += `${data.text}\n`;
    else end();
  };
  worker.onerror = (event) => {
    output.textContent += `The example could not be run: ${event.message || 'its script was not loaded'}\n`;
    end();
  };
  const code = before.map((text, i) => `self.heedBlock = ${i};\n${text}`).join('\n');
  const urlOf = (name) => new URL(`heed/${name.slice('heed/'.length) || 'index'}.js`, site).href;
  worker.postMessage({ until, code: code.replaceAll(entries, (_, name) => `from '${urlOf(name)}';`) });
}

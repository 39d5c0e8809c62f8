/** What this machine does, measured when asked; copyable as text. */

import sizes from 'virtual:sizes';
import { signal } from '@preact/signals';
import type { Build } from 'heed';
import type { ComponentChildren } from 'preact';
import { Choice, CopyButton, Notice } from '../../components/controls';
import { bytes, count, milliseconds, percent } from '../../components/numbers';
import { Plot } from '../../components/plot';
import { Waiting } from '../../components/waiting';
import { asFailure, build, type Failure, heed, inTurn, shipped } from '../../engine/heed';
import { type LengthResult, lengthsFor, measureLengths, measureParts, type PartResult } from '../../engine/speed';
import peers from './peers.json';

const lengths = signal<LengthResult[]>([]);
const parts = signal<PartResult[]>([]);
const running = signal(false);
const failure = signal<Failure | null>(null);
/** Tokens of the text whose parts are timed. */
const partsLength = 128;

async function measure(): Promise<void> {
  running.value = true;
  failure.value = null;
  lengths.value = [];
  parts.value = [];
  try {
    const { model } = shipped.value!;
    await inTurn(() =>
      measureLengths(model, (result) => {
        lengths.value = [...lengths.value, result];
      }),
    );
    parts.value = await inTurn(() => measureParts(heed.value!, model.config, partsLength));
  } catch (reason) {
    failure.value = asFailure(reason);
  } finally {
    running.value = false;
  }
}

export function SpeedPage() {
  return (
    <>
      <header class="page-head">
        <h1>Speed</h1>
        <p class="lede">
          What this machine does with one thread and no special headers, measured here and now: press Measure.
        </p>
      </header>
      {shipped.value ? <Measurements /> : <Waiting what="The measurements" progress />}
      <Sizes />
    </>
  );
}

function Measurements() {
  const { build: runs, reason, compiler, version } = heed.value!.info;
  const { config } = shipped.value!.model;
  const longest = lengths.value.at(-1);
  const [own, ...others] = downloads();
  const heaviest = others.sort((a, b) => b.brotli - a.brotli)[0]!;
  return (
    <>
      <dl class="figures">
        <Figure name="Speed" of={longest ? count(longest.tokensPerSecond) : '…'}>
          {longest ? `tokens per second in texts of ${longest.length}` : 'tokens per second, not measured yet'}
        </Figure>
        <Figure name="Build" of={buildNames[runs]}>
          heed {version}: {reason}
        </Figure>
        <Figure name="Model" of={count(config.parameterCount)}>
          parameters in {config.numLayers} layers
        </Figure>
        <Figure name="To fetch" of={bytes(own!.brotli)}>
          script and module; {heaviest.name}: {Math.round(heaviest.brotli / own!.brotli)} times that
        </Figure>
      </dl>
      <div class="measure">
        <button type="button" class="first" disabled={running.value} onClick={() => void measure()}>
          {running.value ? 'Measuring …' : lengths.value.length ? 'Measure again' : 'Measure'}
        </button>
        {parts.value.length > 0 && <CopyButton label="Copy as text" text={asText} />}
        <Choice
          label="Build (the page starts anew)"
          state={build}
          options={[['auto', 'auto'], ...Object.entries(buildNames)] as [Build | 'auto', string][]}
        />
      </div>
      {running.value && (
        <p class="facts" role="status">
          {lengths.value.length < planned()
            ? `texts of ${lengthsFor(shipped.value!.model.config.maxLength)[lengths.value.length]} tokens …`
            : 'part by part …'}
        </p>
      )}
      {failure.value && <Notice kind="alert">{failure.value.message}</Notice>}
      <div class="columns">
        <Lengths />
        <Parts />
      </div>
      <p class="facts">Compiled by {compiler}.</p>
    </>
  );
}

const buildNames = { 'relaxed-simd': 'relaxed SIMD', simd128: 'SIMD128' };
const planned = () => lengthsFor(shipped.value!.model.config.maxLength).length;

const Figure = ({ name, of, children }: { name: string; of: string; children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>
      <strong>{of}</strong>
      <span>{children}</span>
    </dd>
  </div>
);

function Lengths() {
  const results = lengths.value;
  if (results.length === 0) return null;
  return (
    <section aria-labelledby="lengths">
      <h2 id="lengths">Tokens per second by length</h2>
      <Plot
        label={`Tokens per second by length of the text, from ${count(results[0]!.tokensPerSecond)} at ${results[0]!.length} tokens to ${count(results.at(-1)!.tokensPerSecond)} at ${results.at(-1)!.length}; the table below has all.`}
        dependencies={[results]}
        draw={(plot, width) =>
          plot.plot({
            width,
            height: 260,
            marginLeft: 60,
            marginBottom: 44,
            x: {
              type: 'log',
              base: 2,
              label: 'tokens in the text',
              ticks: results.map(({ length }) => length),
              tickFormat: 'd',
            },
            y: { label: 'tokens per second', grid: true, zero: true, tickFormat: '~s' },
            marks: [
              plot.ruleY([0]),
              plot.lineY(results, { x: 'length', y: 'tokensPerSecond', marker: 'dot', strokeWidth: 2 }),
            ],
          })
        }
      />
      <table class="facts-table" id="length-table">
        <thead>
          <tr>
            <th scope="col">Tokens</th>
            <th scope="col" class="number">
              per second
            </th>
            <th scope="col" class="number">
              one text
            </th>
          </tr>
        </thead>
        <tbody>
          {results.map(({ length, tokensPerSecond }) => (
            <tr key={length}>
              <th scope="row">{length}</th>
              <td class="number">{count(tokensPerSecond)}</td>
              <td class="number">{milliseconds((1000 * length) / tokensPerSecond)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Parts() {
  const results = parts.value;
  if (results.length === 0) return null;
  const total = results.reduce((sum, part) => sum + part.milliseconds, 0);
  const whole = lengths.value.find(({ length }) => length === partsLength);
  return (
    <section aria-labelledby="parts">
      <h2 id="parts">Where the time goes</h2>
      <p class="learn">
        The parts of a layer one by one, in fp32 at the model’s shapes with {partsLength} tokens, times the number of
        layers; each includes copying in and out. Together {milliseconds(total)}
        {whole &&
          `; a whole encoding, in ${shipped.value!.model.config.dtype === 'q8' ? 'int8' : 'fp32'}, takes ${milliseconds((1000 * partsLength) / whole.tokensPerSecond)}`}
        .
      </p>
      <Bars
        label={`Milliseconds by part: ${results.map((entry) => `${entry.part} ${milliseconds(entry.milliseconds)}`).join(', ')}.`}
        unit="milliseconds"
        rows={results.map(({ part, milliseconds: time }) => ({
          name: part,
          value: time,
          note: `${milliseconds(time)}, ${percent(time / total)}`,
          colour: 'var(--key)',
        }))}
      />
    </section>
  );
}

interface Bar {
  name: string;
  value: number;
  note: string;
  colour: string;
}

/** Bars with their names beside and their figures at their ends. */
function Bars({ label, unit, rows }: { label: string; unit: string; rows: Bar[] }) {
  return (
    <Plot
      label={label}
      dependencies={[rows.map(({ name, note }) => name + note).join()]}
      draw={(plot, width) => {
        // On a phone names stand above their bars.
        const above = width < 480;
        const letter = 0.48 * Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
        const roomFor = (texts: string[]) => letter * Math.max(...texts.map((text) => text.length)) + 14;
        return plot.plot({
          width,
          height: 54 + (above ? 44 : 34) * rows.length,
          marginBottom: 44,
          marginLeft: above ? 2 : roomFor(rows.map(({ name }) => name)),
          marginRight: roomFor(rows.map(({ note }) => note)),
          x: { label: unit, grid: true, ticks: Math.max(2, Math.min(5, width / 160)) },
          y: { label: null, domain: rows.map(({ name }) => name), axis: above ? null : 'left', tickSize: 0 },
          marks: [
            plot.barX(rows, { x: 'value', y: 'name', fill: 'colour', insetTop: above ? 18 : 2, insetBottom: 2, rx: 2 }),
            plot.text(rows, { x: 'value', y: 'name', text: 'note', textAnchor: 'start', dx: 6, dy: above ? 8 : 0 }),
            above ? plot.text(rows, { x: 0, y: 'name', text: 'name', textAnchor: 'start', dx: 2, dy: -12 }) : [],
            plot.ruleX([0]),
          ],
        });
      }}
    />
  );
}

/** What a page fetches before the first vector, without the model. */
function downloads(): { name: string; brotli: number }[] {
  const module = sizes[heed.value?.info.build ?? 'relaxed-simd'];
  return [{ name: 'heed', brotli: module + sizes.scripts }, ...peers.libraries];
}

function Sizes() {
  const rows = downloads();
  const own = rows[0]!.brotli;
  return (
    <section class="panel" aria-labelledby="sizes">
      <h2 id="sizes">What a page has to fetch</h2>
      <p class="learn">
        Script and WebAssembly for one encoder on one thread, without a model, compressed with brotli; the peers as
        their packages were published ({peers.measured}).
      </p>
      <Bars
        label={`Download sizes: ${rows.map(({ name, brotli }) => `${name} ${bytes(brotli)}`).join(', ')}.`}
        unit="MB"
        rows={rows.map(({ name, brotli }, i) => ({
          name,
          value: brotli / 1e6,
          note: i === 0 ? bytes(brotli) : `${bytes(brotli)}, ${(brotli / own).toFixed(brotli < 10 * own ? 1 : 0)}×`,
          colour: i === 0 ? 'var(--query)' : 'var(--line-strong)',
        }))}
      />
    </section>
  );
}

function asText(): string {
  const { version, build: runs, reason } = heed.value!.info;
  return [
    `heed ${version}, ${runs} build (${reason}), one thread`,
    navigator.userAgent,
    '',
    'tokens  tokens/s',
    ...lengths.value.map(
      ({ length, tokensPerSecond }) => `${String(length).padStart(6)}  ${count(tokensPerSecond).padStart(8)}`,
    ),
    '',
    `parts at ${partsLength} tokens, all layers, fp32`,
    ...parts.value.map((entry) => `${entry.milliseconds.toFixed(2).padStart(8)} ms  ${entry.part}`),
    '',
    'download, brotli',
    ...downloads().map(({ name, brotli }) => `${bytes(brotli).padStart(8)}  ${name}`),
    '',
  ].join('\n');
}

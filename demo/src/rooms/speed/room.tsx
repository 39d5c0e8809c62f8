/** What this machine does, measured when asked; copyable as text. */

import sizes from 'virtual:sizes';
import { signal } from '@preact/signals';
import { proxy } from 'comlink';
import { useEffect } from 'preact/hooks';
import { Choice, Notice } from '../../components/controls';
import { bytes, count, milliseconds, percent } from '../../components/numbers';
import { Plot } from '../../components/plot';
import { Waiting } from '../../components/waiting';
import { asFailure, build, engine, type Failure, info, shipped } from '../../engine/client';
import type { LengthResult, PartResult } from '../../engine/speed';
import peers from './peers.json';

const lengths = signal<LengthResult[]>([]);
const parts = signal<PartResult[]>([]);
const memory = signal(0);
const running = signal(false);
const failure = signal<Failure | null>(null);
const copied = signal(false);
/** Tokens of the text whose parts are timed. */
const partsLength = 128;

async function measure(): Promise<void> {
  running.value = true;
  failure.value = null;
  lengths.value = [];
  parts.value = [];
  try {
    await engine.lengths(
      'shipped',
      proxy((result: LengthResult) => {
        lengths.value = [...lengths.value, result];
      }),
    );
    parts.value = await engine.parts('shipped', partsLength);
    memory.value = await engine.memory();
  } catch (reason) {
    failure.value = asFailure(reason);
  } finally {
    running.value = false;
  }
}

export function SpeedRoom() {
  return (
    <>
      <header class="room-head">
        <h1>Speed</h1>
        <p class="lede">What this machine does with one thread, measured here and now.</p>
      </header>
      {shipped.value && info.value ? <Measurements /> : <Waiting what="The measurements" progress />}
      <Sizes />
    </>
  );
}

function Measurements() {
  // It grew while the model was opened.
  useEffect(() => {
    void engine.memory().then((size) => {
      memory.value = size;
    });
  }, []);
  const { build: runs, reason, compiler, version } = info.value!;
  return (
    <>
      <table class="facts-table">
        <tbody>
          <tr>
            <th scope="row">Running</th>
            <td>
              heed {version}, the {runs} build: {reason}
            </td>
          </tr>
          <tr>
            <th scope="row">Compiled by</th>
            <td>{compiler}</td>
          </tr>
          <tr>
            <th scope="row">Memory of the module</th>
            <td>{bytes(memory.value || info.value!.memoryBytes)}</td>
          </tr>
        </tbody>
      </table>
      <div class="panel">
        <Choice
          label="Build (the page starts anew)"
          state={build}
          options={[
            ['auto', 'auto'],
            ['relaxed-simd', 'relaxed SIMD'],
            ['simd128', 'SIMD128'],
          ]}
        />
        <div class="buttons">
          <button type="button" disabled={running.value} onClick={() => void measure()}>
            {running.value ? 'Measuring …' : lengths.value.length ? 'Measure again' : 'Measure'}
          </button>
          {parts.value.length > 0 && (
            <button
              type="button"
              onClick={async () => {
                await navigator.clipboard.writeText(asText());
                copied.value = true;
              }}
            >
              <span aria-live="polite">{copied.value ? 'Copied' : 'Copy as text'}</span>
            </button>
          )}
        </div>
        {failure.value && <Notice kind="alert">{failure.value.message}</Notice>}
        <div class="columns">
          <Lengths />
          <Parts />
        </div>
      </div>
    </>
  );
}

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
  return (
    <section aria-labelledby="parts">
      <h2 id="parts">Where the time goes</h2>
      <p>
        The parts of a layer one by one, in fp32 at the model’s shapes with {partsLength} tokens, times the number of
        layers; each includes copying in and out.
      </p>
      <Plot
        label={`Milliseconds by part: ${results.map((entry) => `${entry.part} ${milliseconds(entry.milliseconds)}`).join(', ')}.`}
        dependencies={[results]}
        draw={(plot, width) =>
          plot.plot({
            width,
            height: 54 + 32 * results.length,
            marginBottom: 44,
            marginLeft: 150,
            x: { label: 'milliseconds', grid: true },
            y: { label: null, domain: results.map((entry) => entry.part) },
            marks: [plot.barX(results, { x: 'milliseconds', y: 'part', fill: 'var(--key)' }), plot.ruleX([0])],
          })
        }
      />
      <table class="facts-table">
        <tbody>
          {results.map((entry) => (
            <tr key={entry.part}>
              <th scope="row">{entry.part}</th>
              <td class="number">{milliseconds(entry.milliseconds)}</td>
              <td class="number">{percent(entry.milliseconds / total)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** What a page fetches before the first vector, without the model. */
function downloads(): { name: string; brotli: number }[] {
  const module = sizes[info.value?.build ?? 'relaxed-simd'];
  return [{ name: 'heed', brotli: module + sizes.scripts }, ...peers.libraries];
}

function Sizes() {
  const rows = downloads();
  const own = rows[0]!.brotli;
  return (
    <section class="panel" aria-labelledby="sizes">
      <h2 id="sizes">What a page has to fetch</h2>
      <p>
        Script and WebAssembly for one encoder on one thread, without a model, compressed with brotli; the peers as
        their packages were published ({peers.measured}).
      </p>
      <Plot
        label={`Download sizes: ${rows.map(({ name, brotli }) => `${name} ${bytes(brotli)}`).join(', ')}.`}
        dependencies={[rows.map(({ brotli }) => brotli).join()]}
        draw={(plot, width) =>
          plot.plot({
            width: Math.min(width, 900),
            height: 54 + 36 * rows.length,
            marginBottom: 44,
            marginLeft: 150,
            marginRight: 90,
            x: { label: 'MB', grid: true, ticks: 4, transform: (size: number) => size / 1e6 },
            y: { label: null, domain: rows.map(({ name }) => name) },
            marks: [
              plot.barX(rows, {
                x: 'brotli',
                y: 'name',
                fill: (row: { name: string }) => (row.name === 'heed' ? 'var(--query)' : 'var(--line-strong)'),
              }),
              plot.text(rows, {
                x: 'brotli',
                y: 'name',
                text: (row: { brotli: number }) =>
                  row.brotli === own ? bytes(own) : `${bytes(row.brotli)}, ${Math.round(row.brotli / own)}×`,
                textAnchor: 'start',
                dx: 6,
              }),
            ],
          })
        }
      />
    </section>
  );
}

function asText(): string {
  const { version, build: runs, reason } = info.value!;
  return [
    `heed ${version}, ${runs} build (${reason}), one thread`,
    navigator.userAgent,
    `module memory: ${bytes(memory.value)}`,
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

/** Measures the speed of heed on this machine. */

import '../../styles/panels.css';
import sizes from 'virtual:sizes';
import { signal } from '@preact/signals';
import type { Build, PretrainedModel } from 'heed';
import type { ComponentChildren } from 'preact';
import { Choice, CopyButton, Notice } from '../../components/controls';
import { bytes, count, milliseconds, percent } from '../../components/numbers';
import { Plot } from '../../components/plot';
import { Waiting } from '../../components/waiting';
import { asFailure, build, type Failure, heed, inTurn, noThreads, openThreaded, shipped } from '../../engine/heed';
import { type LengthResult, lengthsFor, measureLengths, measureParts, type PartResult } from '../../engine/speed';
import { choice } from '../../state/codecs';
import { completeState, urlState } from '../../state/url';
import peers from './peers.json';

const lengths = signal<LengthResult[]>([]);
const parts = signal<PartResult[]>([]);
/** The threads to measure beside one. */
const threads = urlState<'1' | '2' | 'auto'>('speed', 'threads', 'auto', choice('1', '2', 'auto'));
completeState('speed');
/** How many ran beside one in the last measurement, and why; null: none. */
const ran = signal<{ count: number; reason: string } | null>(null);
const running = signal(false);
const failure = signal<Failure | null>(null);
/** The number of tokens for which the parts of a layer are measured. */
const partsLength = 128;

async function measure(): Promise<void> {
  running.value = true;
  failure.value = null;
  lengths.value = [];
  parts.value = [];
  ran.value = null;
  try {
    const { model } = shipped.value!;
    await inTurn(() => measureWithThreads(model));
    parts.value = await inTurn(() => measureParts(heed.value!, model.config, partsLength));
  } catch (reason) {
    failure.value = asFailure(reason);
  } finally {
    running.value = false;
  }
}

async function measureWithThreads(model: PretrainedModel): Promise<void> {
  const wanted = noThreads || threads.value === '1' ? null : threads.value;
  const several = wanted && (await openThreaded(wanted === 'auto' ? wanted : Number(wanted)));
  try {
    if (several) ran.value = { count: several.runtime.info.threads, reason: several.runtime.info.threadsReason };
    const threaded = several && several.runtime.info.threads > 1 ? several.model : undefined;
    await measureLengths(model, threaded, (result) => {
      lengths.value = [...lengths.value, result];
    });
  } finally {
    several?.runtime.dispose();
  }
}

export function SpeedPage() {
  return (
    <>
      <header class="page-head">
        <h1>Speed</h1>
        <p class="lede">
          This page measures heed’s speed on your machine, with one thread and, if the page is cross-origin isolated,
          with several.
        </p>
      </header>
      {shipped.value ? (
        <>
          <Measurements />
          <Sizes />
        </>
      ) : (
        <Waiting what="The measurements" progress />
      )}
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
          {longest ? `tokens per second in texts of ${longest.length} tokens` : 'tokens per second, not measured yet'}
        </Figure>
        <Figure name="Build" of={buildNames[runs]}>
          heed {version}: {reason}
        </Figure>
        <Figure name="Model" of={count(config.parameterCount)}>
          parameters in {config.numLayers} layers
        </Figure>
        <Figure name="Download" of={bytes(own!.brotli)}>
          scripts and module; {heaviest.name} is {Math.round(heaviest.brotli / own!.brotli)} times as large
        </Figure>
      </dl>
      <div class="measure">
        <button type="button" class="first" disabled={running.value} onClick={() => void measure()}>
          {running.value ? 'Measuring …' : lengths.value.length ? 'Measure again' : 'Measure'}
        </button>
        {parts.value.length > 0 && <CopyButton label="Copy as text" text={asText} />}
        <Choice
          label="Build (reloads the page)"
          state={build}
          options={[['auto', 'auto'], ...Object.entries(buildNames)] as [Build | 'auto', string][]}
        />
        {!noThreads && (
          <Choice
            label="Threads"
            state={threads}
            options={[
              ['1', '1'],
              ['2', '1 and 2'],
              ['auto', '1 and auto'],
            ]}
          />
        )}
      </div>
      {noThreads && <p class="facts">One thread: {noThreads}.</p>}
      {ran.value && (
        <p class="facts">
          Measured with one thread{ran.value.count > 1 && ` and with ${ran.value.count}`}: {ran.value.reason}.
        </p>
      )}
      {running.value && (
        <p class="facts" role="status">
          {lengths.value.length < planned()
            ? `Measuring texts of ${lengthsFor(shipped.value!.model.config.maxLength)[lengths.value.length]} tokens …`
            : 'Measuring the parts of a layer …'}
        </p>
      )}
      {failure.value && <Notice kind="alert">{failure.value.message}</Notice>}
      <div class="columns">
        <Lengths />
        <Parts />
      </div>
      <p class="facts">Compiled with {compiler}.</p>
    </>
  );
}

/** How many times as fast the threads are as one. */
const gain = ({ tokensPerSecond, withThreads }: LengthResult) => `${(withThreads! / tokensPerSecond).toFixed(2)}×`;
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
  const several = results[0]!.withThreads === undefined ? null : `${ran.value!.count} threads`;
  const lines = results.flatMap(({ length, tokensPerSecond, withThreads }) => [
    { length, rate: tokensPerSecond, threads: 'one thread' },
    ...(several ? [{ length, rate: withThreads!, threads: several }] : []),
  ]);
  const range = (rate: (result: LengthResult) => number) =>
    `from ${count(rate(results[0]!))} at ${results[0]!.length} tokens to ${count(rate(results.at(-1)!))} at ${results.at(-1)!.length}`;
  return (
    <section aria-labelledby="lengths">
      <h2 id="lengths">Tokens per second by length</h2>
      <Plot
        label={`Tokens per second by length of the text, ${range((each) => each.tokensPerSecond)}${several ? `, with ${several} ${range((each) => each.withThreads!)}` : ''}; the table below lists all values.`}
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
              plot.lineY(lines, {
                x: 'length',
                y: 'rate',
                z: 'threads',
                stroke: ({ threads }) => (threads === several ? 'var(--query)' : 'currentColor'),
                marker: 'dot',
                strokeWidth: 2,
              }),
              // The names of the lines: above the upper one and below the lower one.
              several
                ? lines.slice(-2).map((line, i, both) =>
                    plot.text([line], {
                      x: 'length',
                      y: 'rate',
                      text: 'threads',
                      textAnchor: 'end',
                      dy: line.rate > both[1 - i]!.rate || (line.rate === both[1 - i]!.rate && i === 0) ? -12 : 14,
                    }),
                  )
                : [],
            ],
          })
        }
      />
      <table class="facts-table" id="length-table">
        <thead>
          <tr>
            <th scope="col">Tokens</th>
            <th scope="col" class="number">
              Tokens per second
            </th>
            <th scope="col" class="number">
              Time per text
            </th>
            {several && (
              <th scope="col" class="number">
                With {several}
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {results.map((result) => (
            <tr key={result.length}>
              <th scope="row">{result.length}</th>
              <td class="number">{count(result.tokensPerSecond)}</td>
              <td class="number">{milliseconds((1000 * result.length) / result.tokensPerSecond)}</td>
              {several && (
                <td class="number">
                  {count(result.withThreads!)}, {gain(result)}
                </td>
              )}
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
        The parts of a layer, measured separately in fp32 with the model’s shapes and {partsLength} tokens, times the
        number of layers, including the copies to and from the module’s memory. Total: {milliseconds(total)}
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

/** A bar chart with names on the left and values at the ends of the bars. */
function Bars({ label, unit, rows }: { label: string; unit: string; rows: Bar[] }) {
  return (
    <Plot
      label={label}
      dependencies={[rows.map(({ name, note }) => name + note).join()]}
      draw={(plot, width) => {
        // On a phone the names are above the bars.
        const above = width < 480;
        const characterWidth = 0.48 * Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
        const widthOf = (texts: string[]) => characterWidth * Math.max(...texts.map((text) => text.length)) + 14;
        return plot.plot({
          width,
          height: 54 + (above ? 44 : 34) * rows.length,
          marginBottom: 44,
          marginLeft: above ? 2 : widthOf(rows.map(({ name }) => name)),
          marginRight: widthOf(rows.map(({ note }) => note)),
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

/** What a page downloads before it can compute the first vector, without the model. */
function downloads(): { name: string; brotli: number }[] {
  const module = sizes[heed.value?.info.build ?? 'relaxed-simd'];
  return [{ name: 'heed', brotli: module + sizes.scripts }, ...peers.libraries];
}

function Sizes() {
  const rows = downloads();
  const own = rows[0]!.brotli;
  return (
    <section class="panel" aria-labelledby="sizes">
      <h2 id="sizes">Download size</h2>
      <p class="learn">
        Scripts and WebAssembly for one encoder on one thread, without a model, compressed with Brotli. The other
        libraries are measured as published on npm ({peers.measured}).
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
  const several = lengths.value.some(({ withThreads }) => withThreads !== undefined);
  return [
    `heed ${version}, ${runs} build (${reason}), one thread`,
    navigator.userAgent,
    '',
    `tokens  tokens/s${several ? `  with ${ran.value!.count} threads` : ''}`,
    ...lengths.value.map((result) => {
      const one = `${String(result.length).padStart(6)}  ${count(result.tokensPerSecond).padStart(8)}`;
      return several ? `${one}  ${count(result.withThreads!).padStart(8)}  ${gain(result)}` : one;
    }),
    '',
    `parts at ${partsLength} tokens, all layers, fp32`,
    ...parts.value.map((entry) => `${entry.milliseconds.toFixed(2).padStart(8)} ms  ${entry.part}`),
    '',
    'download, Brotli',
    ...downloads().map(({ name, brotli }) => `${bytes(brotli).padStart(8)}  ${name}`),
    '',
  ].join('\n');
}

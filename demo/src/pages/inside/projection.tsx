/** The hidden states of all tokens in two dimensions, layer by layer. */
import { signal } from '@preact/signals';
import { Slider } from '../../components/controls';
import { percent, short } from '../../components/numbers';
import { Plot } from '../../components/plot';
import type { ProjectionView } from '../../engine/views';
import { pointAt } from '../../state/device';
import { hasMoved } from '../../state/pointer';
import { texts, within } from '../sentences/state';
import { projection, step } from './state';

const playing = signal(false);
/** Milliseconds per layer, long enough to follow the tokens. */
const pause = 1400;

function play(steps: number): void {
  playing.value = true;
  step.value = 0;
  const timer = setInterval(() => {
    if (playing.value && step.value < steps - 1) {
      step.value++;
      return;
    }
    clearInterval(timer);
    playing.value = false;
  }, pause);
}

const stop = () => {
  playing.value = false;
};

export function Projection() {
  const current = projection.value;
  if (!current) return null;
  const { steps } = current;
  const at = within(step.value, steps.length);
  const sentences = 1 + Math.max(...current.tokens.map(({ text }) => text));
  const where = at === 0 ? 'embeddings' : `after layer ${at}`;
  const plays = playing.value;
  return (
    <section class="panel" aria-labelledby="projection">
      <header>
        <h2 id="projection">Hidden states</h2>
        <p class="timing">two components explain {percent(steps[at]!.kept)} of the variance</p>
      </header>
      <div class="plane">
        <div class="beside">
          <p class="learn">
            The tokens of all sentences in the plane of their two principal components, coloured by sentence. An
            embedding is the sum of a word’s vector and its position’s, so even among the embeddings, the same word lies
            at different points. Each layer adds information from the other tokens. {pointAt} a token to find it in the
            other sentences.
          </p>
          <div class="through">
            <Slider
              label="Layer"
              min={0}
              max={steps.length - 1}
              value={at}
              shown={where}
              onChange={(value) => {
                stop();
                step.value = value;
              }}
            />
            <button type="button" onClick={() => (plays ? stop() : play(steps.length))}>
              {plays ? 'Stop' : 'Play'}
            </button>
          </div>
          <ol class="legend">
            {texts.value.slice(0, sentences).map((line, i) => (
              <li key={i}>
                <span class="swatch" style={{ background: series[i] }} /> {short(line)}
              </li>
            ))}
          </ol>
        </div>
        <Plot
          glide
          label={`${current.tokens.length} tokens of ${sentences} sentences in two dimensions, ${where}.`}
          dependencies={[current, at]}
          draw={(plot, width) => draw(plot, width, current, at, texts.peek())}
        />
      </div>
    </section>
  );
}

const margin = 36;

function draw(
  plot: typeof import('../../components/plot-library'),
  width: number,
  { tokens, steps }: ProjectionView,
  at: number,
  texts: string[],
): Element {
  const { points } = steps[at]!;
  const height = Math.min(600, Math.max(320, width * 0.62));
  const extent = [0, 1].map((axis) => {
    const values = points.map((point) => point[axis]!);
    return [Math.min(...values), Math.max(...values)] as const;
  });
  // Both axes have the same scale, so that distances are comparable in all directions.
  const unit = Math.max(
    1e-6,
    ...extent.map(([low, high], axis) => (high - low) / ((axis ? height : width) - 2 * margin)),
  );
  const domain = (axis: number) => {
    const [low, high] = extent[axis]!;
    const half = (unit * ((axis ? height : width) - 2 * margin)) / 2;
    return [(low + high) / 2 - half, (low + high) / 2 + half];
  };
  const dots = points.map(([x, y], i) => ({ x, y, ...tokens[i]! }));
  const chart = plot.plot({
    width,
    height,
    margin,
    x: { domain: domain(0), axis: null },
    y: { domain: domain(1), axis: null },
    color: { type: 'categorical', domain: series.map((_, i) => i), range: series },
    marks: [
      plot.frame({ rx: 6, stroke: 'var(--line)', inset: -margin + 1 }),
      plot.dot(dots, {
        x: 'x',
        y: 'y',
        fill: 'text',
        r: 4.5,
        title: ({ token, text }) => `${token} in “${short(texts[text] ?? '', 60)}”`,
      }),
      plot.text(dots, { x: 'x', y: 'y', text: 'token', dy: -10, fontSize: 12, fill: 'currentColor' }),
    ],
  });
  const labels = [...chart.querySelectorAll('text')];
  const covered = coveredLabels(points.map(([x, y], i) => [x / unit, y / unit, tokens[i]!.token.length]));
  for (const i of covered) labels[i]!.classList.add('covered');
  highlightTogether(chart, [...chart.querySelectorAll('circle')], labels, tokens);
  return chart;
}

/** Labels that would overlap others; they are shown when the reader points at their token. */
function coveredLabels(labels: [x: number, y: number, length: number][]): number[] {
  const shown: number[] = [];
  return labels.flatMap(([x, y, length], i) => {
    const free = shown.every((j) => {
      const [otherX, otherY, otherLength] = labels[j]!;
      return Math.abs(y - otherY) > 13 || Math.abs(x - otherX) > 3.6 * (length + otherLength);
    });
    if (free) shown.push(i);
    return free ? [] : [i];
  });
}

/** Highlights the same token in all sentences when the reader points at it. */
function highlightTogether(chart: Element, dots: Element[], labels: Element[], tokens: { token: string }[]): void {
  const elements = [dots, labels];
  const highlight = (event: Event) => {
    const at = Math.max(...elements.map((list) => list.indexOf(event.target as Element)));
    chart.classList.toggle('searching', at >= 0);
    tokens.forEach(({ token }, i) => {
      for (const list of elements) list[i]!.classList.toggle('same', at >= 0 && token === tokens[at]!.token);
    });
  };
  chart.addEventListener('pointermove', (event) => {
    if (hasMoved(event as PointerEvent)) highlight(event);
  });
  chart.addEventListener('pointerleave', highlight);
}

/** One colour per sentence, from colour-blind safe palettes (Paul Tol's “bright”, Observable's). */
export const series = [
  '#4477aa',
  '#ee6677',
  '#228833',
  '#ccaa22',
  '#44aadd',
  '#aa3377',
  '#999999',
  '#ee8833',
  '#7755cc',
  '#22aa88',
  '#bb6644',
  '#dd77bb',
];

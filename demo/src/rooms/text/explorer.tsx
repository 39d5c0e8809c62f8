/** A model on the reader's sentences: attention, similarity, hidden states. */

import { signal } from '@preact/signals';
import { Choice, Notice, Slider } from '../../components/controls';
import { type Focus, type FocusState, focusState } from '../../components/focus';
import { Matrix } from '../../components/matrix';
import { milliseconds, percent, plural } from '../../components/numbers';
import { Plot } from '../../components/plot';
import { TokenAttention } from '../../components/token-attention';
import { HeadEffect, HeadGrid } from './heads';
import { type Explorer, maxSentences, within } from './state';

export function Sentences({ explorer }: { explorer: Explorer }) {
  const { written, texts, linesLeftOut } = explorer;
  return (
    <section class="sentences">
      <label class="field">
        <span>Your sentences, one a line</span>
        <textarea
          rows={5}
          value={written.value}
          onInput={(event) => (written.value = event.currentTarget.value)}
          spellcheck={false}
        />
      </label>
      {texts.value.length === 0 && <Notice>Write a sentence to see what the model makes of it.</Notice>}
      {linesLeftOut.value > 0 && (
        <Notice>
          {plural(linesLeftOut.value, 'further line')} left out: this page compares {maxSentences} at a time.
        </Notice>
      )}
    </section>
  );
}

export function Views({ explorer }: { explorer: Explorer }) {
  if (explorer.texts.value.length === 0) return null;
  return (
    <>
      {explorer.failure.value && (
        <Notice kind="alert" title="This text cannot be computed. ">
          {explorer.failure.value.message}
        </Notice>
      )}
      <Attention explorer={explorer} />
      <Similarity explorer={explorer} />
      <Projection explorer={explorer} />
    </>
  );
}

function Attention({ explorer }: { explorer: Explorer }) {
  const { attention, texts, sentence, layer, head, view, token } = explorer;
  const current = attention.value;
  if (!current) return null;
  const length = current.tokens.length;
  const l = within(layer.value, current.layers);
  const h = within(head.value, current.heads);
  const from = (l * current.heads + h) * length ** 2;
  return (
    <section class="panel" aria-labelledby={`${explorer.which}-attention`}>
      <header>
        <h2 id={`${explorer.which}-attention`}>Attention</h2>
        <p class="timing">
          {plural(length, 'token')} through {plural(current.layers, 'layer')} in {milliseconds(current.milliseconds)}
        </p>
      </header>
      {texts.value.length > 1 && (
        <label class="field inline">
          Sentence
          <select
            value={within(sentence.value, texts.value.length)}
            onChange={(event) => (sentence.value = Number(event.currentTarget.value))}
          >
            {texts.value.map((line, i) => (
              <option key={i} value={i}>
                {i + 1}. {short(line)}
              </option>
            ))}
          </select>
        </label>
      )}
      {current.notRead > 0 && (
        <Notice>
          {plural(current.notRead, 'token')} at the end not read: the text is longer than the model’s limit.
        </Notice>
      )}
      {current.notShown > 0 && (
        <Notice>
          The first {length} tokens are shown; {current.notShown} more were computed.
        </Notice>
      )}
      <div class="attention">
        <div>
          <h3>All heads</h3>
          <HeadGrid explorer={explorer} view={current} />
          <HeadEffect explorer={explorer} />
        </div>
        <div>
          <div class="bar">
            <h3>
              Layer {l + 1}, head {h + 1}
            </h3>
            <Choice
              label="Show as"
              state={view}
              options={[
                ['map', 'heat map'],
                ['lines', 'lines'],
              ]}
            />
          </div>
          <TokenAttention
            tokens={current.tokens}
            weights={current.weights.subarray(from, from + length ** 2)}
            view={view.value}
            pinned={token}
          />
        </div>
      </div>
    </section>
  );
}

const pairs: Record<Explorer['which'], FocusState> = {
  shipped: focusState(signal<Focus>({})),
  own: focusState(signal<Focus>({})),
};

function Similarity({ explorer }: { explorer: Explorer }) {
  const current = explorer.similarity.value;
  if (!current) return null;
  const { view, texts } = current;
  const numbers = texts.map((_, i) => String(i + 1));
  const closest = view.similarity
    .flatMap((row, i) => row.slice(0, i).map((cosine, j) => ({ cosine, i, j })))
    .sort((a, b) => b.cosine - a.cosine)[0];
  return (
    <section class="panel" aria-labelledby={`${explorer.which}-similarity`}>
      <header>
        <h2 id={`${explorer.which}-similarity`}>Similarity</h2>
        <p class="timing">
          {plural(texts.length, 'vector')} in {milliseconds(view.milliseconds)}
        </p>
      </header>
      <div class="similarity">
        <Matrix
          id={`${explorer.which}-cosines`}
          symbol={<mtext>cosine</mtext>}
          caption="Cosine similarity of the sentences"
          values={view.similarity}
          rows={{ axes: ['sentence'], labels: numbers }}
          columns={{ axes: ['other'], labels: numbers }}
          focus={pairs[explorer.which]}
        />
        <div>
          <ol>
            {texts.map((line, i) => (
              <li key={i}>{short(line, 90)}</li>
            ))}
          </ol>
          {closest && (
            <p>
              Closest: {closest.j + 1} and {closest.i + 1}, cosine {closest.cosine.toFixed(2)}.
            </p>
          )}
        </div>
      </div>
    </section>
  );
}

function Projection({ explorer }: { explorer: Explorer }) {
  const { projection, step } = explorer;
  const current = projection.value;
  if (!current) return null;
  const at = within(step.value, current.steps.length);
  const { points, kept } = current.steps[at]!;
  const sentences = 1 + Math.max(...current.tokens.map(({ text }) => text));
  const dots = points.map(([x, y], i) => ({ x, y, token: current.tokens[i]!.token, text: current.tokens[i]!.text }));
  return (
    <section class="panel" aria-labelledby={`${explorer.which}-projection`}>
      <header>
        <h2 id={`${explorer.which}-projection`}>Hidden states</h2>
        <p class="timing">two directions keep {percent(kept)} of the variance</p>
      </header>
      <p>
        Every token of every sentence, in the plane where they differ most; coloured by sentence. Move through the
        layers and watch context pull words together.
      </p>
      <Slider
        label="Layer"
        min={0}
        max={current.steps.length - 1}
        value={at}
        shown={at === 0 ? 'embeddings' : `after layer ${at}`}
        onChange={(value) => (step.value = value)}
      />
      <Plot
        label={`${dots.length} tokens of ${sentences} sentences in two dimensions, ${at === 0 ? 'as embedded' : `after layer ${at}`}.`}
        dependencies={[current, at]}
        draw={(plot, width) =>
          plot.plot({
            width,
            height: Math.min(520, Math.max(320, width * 0.6)),
            marginBottom: 44,
            grid: true,
            x: { label: 'first direction', nice: true },
            y: { label: 'second direction', nice: true },
            color: { type: 'categorical', domain: series.map((_, i) => i), range: series },
            marks: [
              plot.dot(dots, { x: 'x', y: 'y', fill: 'text', r: 3 }),
              plot.text(dots, { x: 'x', y: 'y', text: 'token', dy: -8, fontSize: 11, fill: 'currentColor' }),
            ],
          })
        }
      />
      <ol class="legend">
        {explorer.texts.value.slice(0, sentences).map((line, i) => (
          <li key={i}>
            <span class="swatch" style={{ background: series[i] }} /> {short(line)}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** One colour a sentence, told apart by most eyes on light and on dark (Tol's bright and Observable's). */
const series = [
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

const short = (line: string, length = 48): string => (line.length > length ? `${line.slice(0, length - 1)}…` : line);

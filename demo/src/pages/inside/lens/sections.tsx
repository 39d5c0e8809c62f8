/** The parts of the lens for pretrained models: heads, patching, the logit lens, steering. */
import type { Signal } from '@preact/signals';
import { Choice, Slider } from '../../../components/controls';
import { decimal, milliseconds, percent } from '../../../components/numbers';
import { type Grid, steeredLayer } from './compute';
import { type Edited, edited, effects, grid, steered, words } from './follow';
import { firstOff, HeadGrid, largestOf, shade, tone } from './head-grid';
import type { Candidate, Measure } from './measures';
import { first, from, measure, measures, model, off, over, strength, to } from './state';

const measureNames: Record<Measure, string> = {
  similarity: 'similarity of the sentences',
  word: 'the masked word',
  label: 'the label',
};

export function TextField({ label, state }: { label: string; state: Signal<string> }) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        value={state.value}
        maxLength={300}
        onInput={(event) => {
          state.value = event.currentTarget.value;
        }}
      />
    </label>
  );
}

/** In place of a result. */
const waiting = () => (first.value.trim() === '' ? 'Write a sentence above.' : 'Computing …');

export function MeasureChoice() {
  if (measures.value.length < 2) return null;
  return (
    <Choice
      label="Follow"
      state={measure}
      options={measures.value.map((each) => [each, measureNames[each]] as const)}
    />
  );
}

export function Heads() {
  const current = edited.value;
  const changes = effects.value;
  const { numLayers, numHeads } = model.value!.config;
  const anyOff = (names: readonly string[]) => firstOff(names, numLayers, numHeads) !== undefined;
  return (
    <section aria-labelledby="lens-heads">
      <h2 id="lens-heads">Switch off heads</h2>
      <p role="status" class="lens-result">
        {current && first.value.trim() ? said(current, anyOff(current.off)) : `${waiting()} `}{' '}
        {current && <span class="timing">in {milliseconds(current.milliseconds)}</span>}
      </p>
      {current && current.measure !== 'similarity' && <Candidates {...current} />}
      <HeadGrid
        layers={numLayers}
        heads={numHeads}
        off={off.value}
        setOff={(next) => (off.value = next)}
        changes={changes}
        label="Heads of every layer; arrow keys move between them"
      />
      <p class="hint">
        The colour of a head shows how {scored(current)} changes if it alone is off: orange where it rises, blue where
        it falls, by at most {decimal(largestOf(changes), 4)}.{' '}
        {anyOff(off.value) && (
          <button type="button" onClick={() => (off.value = [])}>
            Switch all on
          </button>
        )}
      </p>
    </section>
  );
}

const scored = (current: Edited | null): string =>
  !current || current.measure === 'similarity' ? 'the similarity' : `the probability of “${current.plain[0]!.name}”`;

function said({ measure, plain, edited: now }: Edited, anyOff: boolean): string {
  const [before, after] = [plain[0]!, now[0]!];
  if (measure === 'similarity')
    return `Similarity of the two sentences: ${decimal(after.score, 4)}${anyOff ? `, with all heads ${decimal(before.score, 4)}` : ''}`;
  const what = measure === 'word' ? 'Most probable word' : 'Label';
  return `${what}: “${after.name}”${anyOff ? `, with all heads “${before.name}”` : ''}`;
}

/** The best candidates, and beside them what they were with all heads. */
function Candidates({ plain, edited: now }: Edited) {
  const before = new Map(plain.map(({ id, score }) => [id, score]));
  return (
    <table class="facts-table" id="lens-candidates">
      <thead>
        <tr>
          <th scope="col">candidate</th>
          <th scope="col">now</th>
          <th scope="col">with all heads</th>
        </tr>
      </thead>
      <tbody>
        {now.map(({ id, name, score }: Candidate) => (
          <tr key={id}>
            <th scope="row">{name}</th>
            <td class="number">{percent(score, 1)}</td>
            <td class="number">{before.has(id) ? percent(before.get(id)!, 1) : 'less'}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Patching() {
  const found = grid.value;
  return (
    <section aria-labelledby="lens-patching">
      <div class="bar">
        <h2 id="lens-patching">Patch the first sentence into the second</h2>
        <Choice
          label="Sites"
          state={over}
          options={[
            ['positions', 'positions'],
            ['heads', 'heads'],
            ['blocks', 'blocks'],
          ]}
        />
      </div>
      {!found && <p class="hint">{waiting()}</p>}
      {typeof found === 'string' && <p class="hint">{found}</p>}
      {found && typeof found === 'object' && <PatchTable {...found} />}
    </section>
  );
}

function PatchTable({ values, columns, unpatched, name }: Grid) {
  const largest = largestOf(values.map((row) => row.map((value) => value - unpatched)));
  const what =
    name === 'similarity'
      ? 'Similarity of the second sentence to the first'
      : `Probability of “${name}” for the second sentence`;
  return (
    <>
      <p class="lens-caption" id="lens-caption">
        {what}, {decimal(unpatched)} without a patch, when one site is taken from the first
      </p>
      <Table
        label="Patch grid"
        captionId="lens-caption"
        columns={columns}
        rows={values.map((row, layer) => ({
          name: `Layer ${layer + 1}`,
          cells: row.map((value) => ({ text: decimal(value), change: value - unpatched })),
        }))}
        largest={largest}
      />
    </>
  );
}

interface TableProps {
  label: string;
  captionId: string;
  columns: readonly string[];
  rows: { name: string; cells: { text: string; change: number }[] }[];
  largest: number;
}

function Table({ label, captionId, columns, rows, largest }: TableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways on narrow screens
    <section class="lens-scroll" tabIndex={0} aria-label={label}>
      <table class="lens-table" aria-labelledby={captionId}>
        <thead>
          <tr>
            <td />
            {columns.map((column, i) => (
              <th scope="col" key={i}>
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, cells }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {cells.map(({ text, change }, i) => (
                <td key={i} class={tone(change)} style={shade(change, largest)}>
                  {text}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The logit lens. */
export function Words() {
  const found = words.value;
  if (measure.value !== 'word') return null;
  return (
    <section aria-labelledby="lens-words">
      <h2 id="lens-words">The most probable word, layer by layer</h2>
      <p class="lens-caption" id="lens-words-caption">
        The word that the model’s output layer gives if it is applied after each layer; stronger colours are larger
        probabilities
      </p>
      {!found && <p class="hint">{waiting()}</p>}
      {found && (
        <Table
          label="Logit lens"
          captionId="lens-words-caption"
          columns={found.tokens}
          rows={found.layers.map((row, i) => ({
            name: i === 0 ? 'Embeddings' : `Layer ${i}`,
            cells: row.map(({ name, score }) => ({ text: name, change: score })),
          }))}
          largest={1}
        />
      )}
    </section>
  );
}

export function Steering() {
  const current = steered.value;
  const layer = Math.min(steeredLayer + 1, model.value!.config.numLayers);
  return (
    <section aria-labelledby="lens-steering">
      <h2 id="lens-steering">Steer the first sentence</h2>
      <div class="sentences-pair">
        <TextField label="From" state={from} />
        <TextField label="To" state={to} />
      </div>
      <Slider
        label="Strength"
        value={strength.value}
        min={-2}
        max={2}
        step={0.1}
        shown={decimal(strength.value, 1)}
        onChange={(value) => {
          strength.value = value;
        }}
      />
      <p role="status" class="lens-result">
        {current && first.value.trim()
          ? `Similarity to “${from.value}”: ${decimal(current.from)}, to “${to.value}”: ${decimal(current.to)}`
          : waiting()}
      </p>
      <p class="hint">
        The difference of the two texts’ mean activations after layer {layer}, times the strength, is added to every
        token.
      </p>
    </section>
  );
}

/** Changing activations: heads switched off, activations patched from another sentence, steering. */
import { batch, computed, effect, signal } from '@preact/signals';
import { moveInRows } from '../../components/arrow-keys';
import { Choice, Notice, Slider } from '../../components/controls';
import { Examples } from '../../components/examples';
import { decimal, milliseconds } from '../../components/numbers';
import { Waiting } from '../../components/waiting';
import { asFailure, type Failure, inTurn, shipped } from '../../engine/heed';
import { latest } from '../../state/latest';
import { page } from '../../state/url';
import '../../styles/lens.css';
import { type Grid, headEffects, patched, type Steered, similarityWithout, steer, steeredLayer } from './compute';
import { examples, type LensExample } from './presets';
import { first, from, off, over, second, strength, to } from './state';

const similar = signal<{ plain: number; edited: number; milliseconds: number } | null>(null);
const effects = signal<number[][] | null>(null);
const grid = signal<{ found: Grid | null } | null>(null);
const steered = signal<Steered | null>(null);
const failure = signal<Failure | null>(null);

type Model = NonNullable<typeof shipped.value>['model'];
type Pair = [string, string];
/** null while one of them is empty. */
const pair = computed<Pair | null>(() =>
  first.value.trim() && second.value.trim() ? [first.value, second.value] : null,
);

let known: { texts: Pair; similarity: number } | undefined;

/** The similarity with all heads; computed once for a pair of texts, so that the answer to a click takes one call. */
async function unedited(model: Model, texts: Pair): Promise<number> {
  if (known?.texts !== texts) known = { texts, similarity: await similarityWithout(model, texts, []) };
  return known.similarity;
}

/** Computes again when what `read` returns changes while the page is shown; null: there is nothing to compute. */
function follow<Input, Result>(
  read: () => Input | null,
  compute: (model: Model, input: Input) => Promise<Result>,
  show: (result: Result) => void,
): void {
  const run = latest(
    ({ model, input }: { model: Model; input: Input }) => inTurn(() => compute(model, input)),
    (result) => {
      failure.value = null;
      show(result);
    },
    (reason) => {
      failure.value = asFailure(reason);
    },
  );
  effect(() => {
    if (page.value !== 'lens' || !shipped.value) return;
    const input = read();
    if (input !== null) run({ model: shipped.value.model, input });
  });
}

follow(
  () => pair.value && { texts: pair.value, off: off.value },
  async (model, { texts, off }) => {
    const start = performance.now();
    const edited = await similarityWithout(model, texts, off);
    const milliseconds = performance.now() - start;
    if (off.length === 0) known = { texts, similarity: edited };
    return { edited, milliseconds, plain: await unedited(model, texts) };
  },
  (result) => {
    similar.value = result;
  },
);
follow(
  () => pair.value,
  headEffects,
  (result) => {
    effects.value = result;
  },
);
follow(
  () => pair.value && { texts: pair.value, over: over.value },
  (model, { texts, over }) => patched(model, texts, over),
  (found) => {
    grid.value = { found };
  },
);
follow(
  () => (first.value.trim() ? { text: first.value, from: from.value, to: to.value, strength: strength.value } : null),
  steer,
  (result) => {
    steered.value = result;
  },
);

function choose(example: LensExample): void {
  batch(() => {
    first.value = example.first;
    second.value = example.second;
    over.value = example.over;
    off.value = [];
  });
}

export function LensPage() {
  const chosen = examples.find((each) => each.first === first.value && each.second === second.value)?.id;
  return (
    <>
      <header class="page-head">
        <h1>Lens: change what the model computes</h1>
        <p class="lede">
          Switch off heads, patch activations of one sentence into another, or steer along a direction, and see how the
          result changes.
        </p>
      </header>
      <Examples
        examples={examples}
        chosen={chosen}
        choose={choose}
        otherwise="Your own sentences. An example says what to look for."
      />
      <div class="lens">
        <div class="sentences-pair">
          <TextField label="First sentence" state={first} />
          <TextField label="Second sentence" state={second} />
        </div>
        {failure.value && (
          <Notice kind="alert" title="This could not be computed. ">
            {failure.value.message}
          </Notice>
        )}
        {shipped.value ? (
          <>
            <Heads />
            <Patching />
            <Steering />
          </>
        ) : (
          <Waiting what="The lens" progress />
        )}
      </div>
    </>
  );
}

function TextField({ label, state }: { label: string; state: typeof first }) {
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

function Heads() {
  const current = similar.value;
  const changes = effects.value;
  const largest = Math.max(1e-9, ...(changes?.flat().map(Math.abs) ?? []));
  const { numLayers, numHeads } = shipped.value!.model.config;
  const toggle = (name: string) => {
    off.value = off.value.includes(name) ? off.value.filter((other) => other !== name) : [...off.value, name].sort();
  };
  const heads = Array.from({ length: numLayers }, (_, layer) =>
    Array.from({ length: numHeads }, (_, head) => `${layer}.${head}`),
  );
  // A link may name heads that the model does not have.
  const firstOff = heads.flat().find((name) => off.value.includes(name));
  return (
    <section aria-labelledby="lens-heads">
      <h2 id="lens-heads">Switch off heads</h2>
      <p role="status" class="lens-result">
        {current
          ? `Similarity of the two sentences: ${decimal(current.edited, 4)}${firstOff ? `, with all heads ${decimal(current.plain, 4)}` : ''} `
          : 'Computing … '}
        {current && <span class="timing">in {milliseconds(current.milliseconds)}</span>}
      </p>
      <fieldset
        class="lens-grid"
        aria-label="Heads of every layer; arrow keys move between them"
        onKeyDown={(event) => moveInRows(event, '.lens-row')}
      >
        {heads.map((names, layer) => (
          <div class="lens-row" key={layer} style={{ '--columns': numHeads }}>
            <span class="lens-name">Layer {layer + 1}</span>
            {names.map((name, head) => {
              const isOff = off.value.includes(name);
              const change = changes?.[layer]?.[head];
              return (
                <button
                  type="button"
                  key={name}
                  class={`lens-cell ${tone(change ?? 0)}`}
                  style={shade(change ?? 0, largest)}
                  tabIndex={name === (firstOff ?? '0.0') ? 0 : -1}
                  aria-pressed={isOff}
                  aria-label={`Switch off layer ${layer + 1}, head ${head + 1}`}
                  title={change === undefined ? undefined : `Off alone: ${signed(change)}`}
                  onClick={() => toggle(name)}
                >
                  {isOff ? 'off' : head + 1}
                </button>
              );
            })}
          </div>
        ))}
      </fieldset>
      <p class="hint">
        The colour of a head shows how the similarity changes if it alone is off: blue where it rises, orange where it
        falls, by at most {decimal(largest, 4)}.{' '}
        {firstOff && (
          <button type="button" onClick={() => (off.value = [])}>
            Switch all on
          </button>
        )}
      </p>
    </section>
  );
}

/** The colour of a cell, the stronger the closer the change is to the largest. */
const shade = (change: number, largest: number) => ({
  '--share': `${Math.round((100 * Math.abs(change)) / largest)}%`,
});
const tone = (change: number): string => (change < 0 ? 'down' : 'up');
const signed = (change: number): string => `${change < 0 ? '' : '+'}${decimal(change, 4)}`;

function Patching() {
  const current = grid.value;
  const found = current?.found;
  const largest = found ? Math.max(1e-9, ...found.values.flat().map((value) => Math.abs(value - found.unpatched))) : 1;
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
      {!current && <p class="hint">Computing …</p>}
      {current && !found && (
        <p class="hint">Patching needs two sentences with the same number of tokens; these have different numbers.</p>
      )}
      {found && (
        <p class="lens-caption" id="lens-caption">
          Similarity of the second sentence to the first, {decimal(found.unpatched)} without a patch, when one site is
          taken from the first
        </p>
      )}
      {found && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways on narrow screens
        <section class="lens-scroll" tabIndex={0} aria-label="Patch grid">
          <table class="lens-table" aria-labelledby="lens-caption">
            <thead>
              <tr>
                <td />
                {found.columns.map((column, i) => (
                  <th scope="col" key={i}>
                    {column}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {found.values.map((row, layer) => (
                <tr key={layer}>
                  <th scope="row">Layer {layer + 1}</th>
                  {row.map((value, i) => {
                    const change = value - found.unpatched;
                    return (
                      <td key={i} class={tone(change)} style={shade(change, largest)}>
                        {decimal(value)}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </section>
  );
}

function Steering() {
  const current = steered.value;
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
        {current
          ? `Similarity to “${from.value}”: ${decimal(current.from)}, to “${to.value}”: ${decimal(current.to)}`
          : 'Computing …'}
      </p>
      <p class="hint">
        The difference of the two texts’ mean activations after layer {steeredLayer + 1}, times the strength, is added
        to every token.
      </p>
    </section>
  );
}

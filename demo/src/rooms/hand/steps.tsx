/** The six steps of an attention layer, each a formula, a sentence and its matrices. */
import type { ComponentChildren } from 'preact';
import { Choice } from '../../components/controls';
import { Fn, Formula, Fraction, N, Op, Projection, Root, Sub, Sup, V } from '../../components/formula';
import { type Axis, Matrix } from '../../components/matrix';
import { decimal, percent } from '../../components/numbers';
import type { HandInput, HandResult, Matrix as Numbers } from '../../engine/hand';
import { PositionPlots } from './positions';
import { focus, hand, head, keyNames, queryNames } from './state';

export interface StepProps {
  input: HandInput;
  result: HandResult;
}

interface StepFrame {
  number: number;
  title: string;
  formula?: ComponentChildren;
  text: ComponentChildren;
  /** Takes a row of the page to itself. */
  wide?: boolean;
  children: ComponentChildren;
}

function Step({ number, title, formula, text, wide = false, children }: StepFrame) {
  return (
    <section class={`step ${wide ? 'wide' : ''}`} aria-labelledby={`step-${number}`}>
      <header>
        <h2 id={`step-${number}`}>
          <span class="number">{number}</span> {title}
        </h2>
        {formula && <div class="formula">{formula}</div>}
        <p>{text}</p>
      </header>
      <div class="matrices">{children}</div>
    </section>
  );
}

const numbered = (axes: string[], length: number, symbol: string): Axis => ({
  axes,
  labels: Array.from({ length }, (_, i) => `${symbol}${subscript(i + 1)}`),
});
const queries = (cross: boolean): Axis => ({ axes: cross ? ['query'] : ['query', 'key'], labels: queryNames.value });
const askers = (): Axis => ({ axes: ['query'], labels: queryNames.value });
const keys = ({ order }: HandInput): Axis => ({
  axes: ['key'],
  labels: order.map((from) => keyNames.value[from]!),
  places: order,
});
const widthOf = (rows: Numbers): number => rows[0]!.length;

/** A′, X′ */
const Primed = ({ of }: { of: string }) => (
  <msup>
    <mi>{of}</mi>
    <mo lspace="0" rspace="0">
      ′
    </mo>
  </msup>
);

/** How much the focused query takes of each key. */
function shares({ result }: StepProps): number[] | undefined {
  const { query } = focus.current.value;
  return query === undefined
    ? undefined
    : (result.heads[head.value]!.dropped ?? result.heads[head.value]!.weights)[query];
}

export function Input({ input, result }: StepProps) {
  const cross = input.y !== null;
  const changed = input.positions.mode !== 'none' || input.layerNorm;
  const edit = (signal: typeof hand.y, rows: Numbers) => (row: number, column: number, value: number) => {
    signal.value = replaced(rows, row, column, value);
  };
  const features = (axis: string, rows: Numbers) => numbered([axis], widthOf(rows), 'x');
  return (
    <Step
      wide
      number={1}
      title="Input"
      text={
        cross
          ? 'One sequence asks (X), another answers (Y): a row per position, a column per feature.'
          : 'A row per word, a column per feature. Type over any number.'
      }
    >
      <Matrix
        id="x"
        symbol={<V>X</V>}
        caption="Input X"
        values={input.x}
        rows={queries(cross)}
        columns={features(changed ? 'raw' : 'feature', input.x)}
        focus={focus}
        onEdit={edit(hand.x as typeof hand.y, input.x)}
      />
      {input.y && (
        <Matrix
          id="y"
          symbol={<V>Y</V>}
          caption="Second input Y"
          values={input.y}
          rows={{ axes: ['key'], labels: keyNames.value }}
          columns={features(changed ? 'rawsource' : 'source', input.y)}
          focus={focus}
          onEdit={edit(hand.y, input.y)}
        />
      )}
      {changed && (
        <Matrix
          id="prepared"
          symbol={<Primed of="X" />}
          caption={`Input ${[input.positions.mode !== 'none' && 'with positions', input.layerNorm && 'normalized'].filter(Boolean).join(', ')}`}
          values={result.x}
          rows={queries(cross)}
          columns={features('feature', result.x)}
          focus={focus}
        />
      )}
      {changed && result.y && (
        <Matrix
          id="prepared-y"
          symbol={<Primed of="Y" />}
          caption="Second input, prepared"
          values={result.y}
          rows={{ axes: ['key'], labels: keyNames.value }}
          columns={features('source', result.y)}
          focus={focus}
        />
      )}
      {input.positions.mode !== 'none' && <PositionPlots />}
    </Step>
  );
}

export function Projections({ input, result }: StepProps) {
  const { query, key, value } = result.heads[head.value]!;
  const cross = input.y !== null;
  const share = shares({ input, result });
  const from = input.y ? 'Y' : 'X';
  const source = cross ? 'source' : 'feature';
  const projections = [
    {
      role: 'query',
      name: 'Q',
      weight: input.queryWeight,
      setting: hand.queryWeight,
      values: query,
      input: 'X',
      feature: 'feature',
      axis: 'asked',
      rows: askers(),
      means: 'what each word asks for',
    },
    {
      role: 'key',
      name: 'K',
      weight: input.keyWeight,
      setting: hand.keyWeight,
      values: key,
      input: from,
      feature: source,
      axis: 'asked',
      rows: keys(input),
      means: 'the label it offers',
    },
    {
      role: 'value',
      name: 'V',
      weight: input.valueWeight,
      setting: hand.valueWeight,
      values: value,
      input: from,
      feature: source,
      axis: 'handed',
      rows: keys(input),
      means: 'the content it hands over',
    },
  ] as const;
  return (
    <Step
      wide
      number={2}
      title="Queries, keys, values"
      formula={projections.map(({ name, input }) => (
        <Projection key={name} result={name} input={input} weight={name} />
      ))}
      text="The same three matrices at every position: what a word asks for, the label it offers, the content it hands over."
    >
      {projections.map(({ role, name, weight, setting, values, feature, axis, rows, means }) => {
        const width = widthOf(values);
        const first = head.value * width;
        return (
          <div class="projection" key={name}>
            <Matrix
              id={`w${name.toLowerCase()}`}
              role={role}
              symbol={<Sub of="W" at={<mi>{name}</mi>} />}
              caption={`Weight W ${name}`}
              values={weight.map((row) => row.slice(first, first + width))}
              rows={numbered([feature], weight.length, 'x')}
              columns={numbered([axis], width, name.toLowerCase())}
              focus={focus}
              onEdit={(row, column, next) => {
                setting.value = replaced(weight, row, first + column, next);
              }}
            />
            <Matrix
              id={name.toLowerCase()}
              role={role}
              symbol={<V>{name}</V>}
              caption={`${name}: ${means}`}
              values={values}
              rows={rows}
              columns={numbered([axis], width, name.toLowerCase())}
              focus={focus}
              strength={role === 'query' ? undefined : share}
            />
          </div>
        );
      })}
      <HeadChoice heads={result.heads.length} />
    </Step>
  );
}

function HeadChoice({ heads }: { heads: number }) {
  if (heads === 1) return null;
  return (
    <Choice
      label="Head shown"
      state={hand.head}
      options={Array.from({ length: heads }, (_, h) => [h, h + 1] as const)}
    />
  );
}

export function Scores({ input, result }: StepProps) {
  const { scores } = result.heads[head.value]!;
  return (
    <Step
      number={3}
      title="Scores"
      formula={
        <Formula>
          <Primed of="A" />
          <Op>=</Op>
          {input.scale === null ? (
            <Fraction
              over={
                <>
                  <V>Q</V>
                  <Sup of="K" to={<mi>⊤</mi>} />
                </>
              }
              under={
                <Root>
                  <Sub of="d" at={<mi>k</mi>} />
                </Root>
              }
            />
          ) : (
            <>
              <N>{decimal(result.scale)}</N>
              <Op>·</Op>
              <V>Q</V>
              <Sup of="K" to={<mi>⊤</mi>} />
            </>
          )}
        </Formula>
      }
      text="Every query against every key: the dot product is large where they point the same way."
    >
      <Matrix
        id="scores"
        symbol={<Primed of="A" />}
        caption="Scaled scores"
        values={scores.map((row) => row.map((entry) => entry * result.scale))}
        rows={askers()}
        columns={keys(input)}
        focus={focus}
      />
    </Step>
  );
}

export function Mask({ input, result }: StepProps) {
  const toggle = (row: number, column: number) => {
    const key = input.order[column]!;
    const painted = input.painted ?? result.mask.map((entries) => entries.map(() => 1));
    const next = replaced(painted, row, key, 1 - painted[row]![key]!);
    hand.painted.value = next.flat().every(Boolean) ? null : next;
  };
  return (
    <Step
      number={4}
      title="Mask"
      formula={
        <Formula>
          <Primed of="A" />
          <Op>+</Op>
          <V>M</V>
        </Formula>
      }
      text="Where attention is forbidden, −∞ is added. Press a cell to forbid it; causal, padding and window add theirs."
    >
      <Matrix
        id="mask"
        symbol={<V>M</V>}
        caption="Mask: pressed means may attend"
        values={result.mask}
        rows={askers()}
        columns={keys(input)}
        focus={focus}
        tone="mask"
        onToggle={toggle}
      />
      {input.painted && (
        <div class="buttons">
          <button type="button" onClick={() => (hand.painted.value = null)}>
            Clear the painted mask
          </button>
        </div>
      )}
    </Step>
  );
}

export function Weights({ input, result }: StepProps) {
  const { weights, dropped } = result.heads[head.value]!;
  return (
    <Step
      number={5}
      title="Softmax"
      formula={
        <Formula>
          <V>A</V>
          <Op>=</Op>
          <Fn>softmax</Fn>
          <Op>(</Op>
          <Primed of="A" />
          <Op>+</Op>
          <V>M</V>
          <Op>)</Op>
        </Formula>
      }
      text="Row by row, scores become shares: each between 0 and 1, each row summing to one (to zero, where a query may see nothing)."
    >
      <Matrix
        id="weights"
        symbol={<V>A</V>}
        caption="Attention weights"
        values={weights}
        rows={askers()}
        columns={keys(input)}
        focus={focus}
        tone="weight"
      />
      {dropped && (
        <Matrix
          id="dropped"
          symbol={
            <>
              <V>Z</V>
              <Op>∗</Op>
              <V>A</V>
            </>
          }
          caption={`Weights after drop-out of ${percent(input.dropout.p)}; what stays is divided by ${decimal(1 - input.dropout.p)}`}
          values={dropped}
          rows={askers()}
          columns={keys(input)}
          focus={focus}
          tone="weight"
        />
      )}
    </Step>
  );
}

export function Output({ input, result }: StepProps) {
  const { output } = result.heads[head.value]!;
  const joined = numbered(['joined'], widthOf(result.concatenated), 'h');
  return (
    <Step
      number={6}
      title="Output"
      formula={
        <Formula>
          <V>H</V>
          <Op>=</Op>
          <V>A</V>
          <V>V</V>
        </Formula>
      }
      text="Each row is the average of the values, weighted by that row of A."
    >
      <Matrix
        id="output"
        symbol={<V>H</V>}
        caption="Output of the head"
        values={output}
        rows={askers()}
        columns={numbered(['handed'], widthOf(output), 'h')}
        focus={focus}
      />
      {input.outputWeight && result.mixed && (
        <>
          <Matrix
            id="joined"
            symbol={
              <>
                <Op>[</Op>
                <Sub of="H" at={<mn>1</mn>} />
                <Op>…</Op>
                <Sub of="H" at={<mi>h</mi>} />
                <Op>]</Op>
              </>
            }
            caption="Heads side by side"
            values={result.concatenated}
            rows={askers()}
            columns={joined}
            focus={focus}
          />
          <Matrix
            id="wo"
            symbol={<V>W</V>}
            caption="Weight W that mixes the heads"
            values={input.outputWeight}
            rows={joined}
            columns={numbered(['mixed'], widthOf(input.outputWeight), 'z')}
            focus={focus}
            onEdit={(row, column, next) => {
              hand.outputWeight.value = replaced(input.outputWeight!, row, column, next);
            }}
          />
          <Matrix
            id="mixed"
            symbol={<V>Z</V>}
            caption="Multi-head output"
            values={result.mixed}
            rows={askers()}
            columns={numbered(['mixed'], widthOf(result.mixed), 'z')}
            focus={focus}
          />
        </>
      )}
    </Step>
  );
}

const replaced = (rows: Numbers, row: number, column: number, value: number): Numbers =>
  rows.map((entries, i) => (i === row ? entries.map((entry, j) => (j === column ? value : entry)) : entries));

const subscript = (value: number): string => String(value).replace(/\d/g, (digit) => '₀₁₂₃₄₅₆₇₈₉'[Number(digit)]!);

/** The six steps of an attention layer: for each, a formula, a sentence, the matrices, and the arithmetic for the focused word. */
import { Choice } from '../../components/controls';
import {
  Fn,
  Formula,
  Fraction,
  N,
  Op,
  Primed,
  Products,
  Projection,
  Root,
  Sub,
  Sup,
  V,
} from '../../components/formula';
import { decimal, percent } from '../../components/numbers';
import type { Matrix as Numbers } from '../../engine/hand';
import { canHover } from '../../state/device';
import { headOf, type StepProps, widthOf } from './shown';
import { focus, hand } from './state';
import {
  FeatureMatrix,
  keys,
  numbered,
  PairMatrix,
  PositionMatrix,
  QueryMatrix,
  queries,
  replaced,
  SourceMatrix,
  Step,
} from './step';

/** The weights of the focused query. */
function shares({ result }: StepProps): number[] | undefined {
  const { query } = focus.current.value;
  const { dropped, weights } = result.heads[headOf(result)]!;
  return query === undefined ? undefined : (dropped ?? weights)[query];
}

export function Input({ input, result }: StepProps) {
  const cross = input.y !== null;
  const changes = [input.positions.mode !== 'none' && 'with positions', input.layerNorm && 'normalized'];
  const prepared = changes.filter(Boolean).join(', ');
  const edit = (signal: typeof hand.y, rows: Numbers) => (row: number, column: number, value: number) => {
    signal.value = replaced(rows, row, column, value);
  };
  const features = (axis: string, rows: Numbers) => numbered(axis, widthOf(rows), 'x');
  return (
    <Step
      number={1}
      title="Input"
      formula={
        prepared ? (
          <Prepared input={input} />
        ) : (
          <>
            <Shape name="X" of={input.x} />
            {input.y && <Shape name="Y" of={input.y} />}
          </>
        )
      }
      text={
        cross
          ? 'Queries come from X, keys and values from Y: one row per position, one column per feature. Every number can be edited.'
          : 'One row per word, one column per feature. Every number can be edited.'
      }
    >
      <PositionMatrix
        id="x"
        symbol={<V>X</V>}
        caption="Input X"
        note={cross ? 'queries' : undefined}
        values={input.x}
        input={input}
        columns={features(prepared ? 'raw' : 'feature', input.x)}
        onEdit={edit(hand.x as typeof hand.y, input.x)}
      />
      {prepared && (
        <PositionMatrix
          id="prepared"
          symbol={<Primed of="X" />}
          caption={`Input ${prepared}`}
          note={prepared}
          values={result.x}
          input={input}
          columns={features('feature', result.x)}
        />
      )}
      {input.y && (
        <SourceMatrix
          input={input}
          id="y"
          symbol={<V>Y</V>}
          caption="Second input Y"
          note="keys, values"
          values={input.y}
          columns={features(prepared ? 'rawsource' : 'source', input.y)}
          onEdit={edit(hand.y, input.y)}
        />
      )}
      {prepared && result.y && (
        <SourceMatrix
          input={input}
          id="prepared-y"
          symbol={<Primed of="Y" />}
          caption={`Second input ${prepared}`}
          note={prepared}
          values={result.y}
          columns={features('source', result.y)}
        />
      )}
    </Step>
  );
}

/** X ∈ ℝ^(4 × 3) */
const Shape = ({ name, of }: { name: string; of: Numbers }) => (
  <Formula>
    <V>{name}</V>
    <Op>∈</Op>
    <Sup
      of={<Fn>ℝ</Fn>}
      to={
        <>
          <N>{of.length}</N>
          <Op>×</Op>
          <N>{widthOf(of)}</N>
        </>
      }
    />
  </Formula>
);

/** X′ = norm(X + P), with the parts that are enabled */
function Prepared({ input: { positions, layerNorm } }: Pick<StepProps, 'input'>) {
  return (
    <Formula>
      <Primed of="X" />
      <Op>=</Op>
      {layerNorm && <Fn>norm</Fn>}
      {(layerNorm || positions.mode === 'concat') && <Op>{positions.mode === 'concat' ? '[' : '('}</Op>}
      <V>X</V>
      {positions.mode !== 'none' && (
        <>
          <Op>{positions.mode === 'add' ? '+' : ','}</Op>
          <V>P</V>
        </>
      )}
      {(layerNorm || positions.mode === 'concat') && <Op>{positions.mode === 'concat' ? ']' : ')'}</Op>}
    </Formula>
  );
}

export function Projections({ input, result }: StepProps) {
  const shown = result.heads[headOf(result)]!;
  const isPrepared = input.positions.mode !== 'none' || input.layerNorm;
  const symbolOf = (name: string) => (isPrepared ? <Primed of={name} /> : <V>{name}</V>);
  const fromQueries = { from: symbolOf('X'), feature: 'feature', rows: queries(input) };
  const fromKeys = {
    from: symbolOf(input.y ? 'Y' : 'X'),
    feature: input.y ? 'source' : 'feature',
    rows: keys(input),
    strength: shares({ input, result }),
  };
  const projections = [
    { role: 'query', name: 'Q', axis: 'match', means: 'queries', ...fromQueries },
    { role: 'key', name: 'K', axis: 'match', means: 'keys', ...fromKeys },
    { role: 'value', name: 'V', axis: 'content', means: 'values', ...fromKeys },
  ] as const;
  return (
    <Step
      number={2}
      title="Queries, keys, values"
      formula={projections.map(({ name, from, role }) => (
        <Projection key={name} name={name} input={from} part={role} />
      ))}
      text="The same three weight matrices at every position give its query (what it looks for), key (what it is matched by) and value (what it contributes)."
    >
      {projections.map(({ role, name, feature, axis, means, rows, ...rest }) => {
        const weight = input[`${role}Weight`];
        const values = shown[role];
        const width = widthOf(values);
        const first = headOf(result) * width;
        const columns = numbered(axis, width, name.toLowerCase());
        return (
          <div class="projection" key={name}>
            <FeatureMatrix
              id={`w${name.toLowerCase()}`}
              role={role}
              symbol={<Sub of={<V>W</V>} at={<mi>{name}</mi>} />}
              caption={`Weight W ${name}`}
              values={weight.map((row) => row.slice(first, first + width))}
              rows={numbered(feature, weight.length, 'x')}
              columns={columns}
              onEdit={(row, column, next) => {
                hand[`${role}Weight`].value = replaced(weight, row, first + column, next);
              }}
            />
            <FeatureMatrix
              id={name.toLowerCase()}
              role={role}
              symbol={<V>{name}</V>}
              caption={`${name}: ${means}`}
              note={means}
              values={values}
              rows={rows}
              columns={columns}
              strength={'strength' in rest ? rest.strength : undefined}
            />
          </div>
        );
      })}
    </Step>
  );
}

export function HeadChoice({ heads }: { heads: number }) {
  if (heads === 1) return null;
  return (
    <Choice label="Head" state={hand.head} options={Array.from({ length: heads }, (_, h) => [h, h + 1] as const)} />
  );
}

export function Scores({ input, result }: StepProps) {
  const { scores } = result.heads[headOf(result)]!;
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
              over={<Products />}
              under={
                <Root>
                  <Sub of={<V>d</V>} at={<mi>k</mi>} />
                </Root>
              }
            />
          ) : (
            <>
              <N>{decimal(result.scale)}</N>
              <Op>·</Op>
              <Products />
            </>
          )}
        </Formula>
      }
      text="The dot product of every query with every key: large if the two vectors point in the same direction."
    >
      <PairMatrix
        id="scores"
        symbol={<Primed of="A" />}
        caption="Scaled scores"
        values={scores.map((row) => row.map((entry) => entry * result.scale))}
        input={input}
      />
    </Step>
  );
}

export function Mask({ input, result }: StepProps) {
  const paint = (row: number, column: number, value: 0 | 1) => {
    const painted = hand.painted.peek() ?? result.mask.map((entries) => entries.map(() => 1));
    const next = replaced(painted, row, input.order[column]!, value);
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
      text={`−∞ masks a key for a query. ${canHover ? 'Click a cell or drag across several' : 'Tap a cell'} to change the mask.`}
    >
      <PairMatrix
        id="mask"
        symbol={<V>M</V>}
        caption="Mask: selected cells may be attended to"
        values={result.mask}
        input={input}
        tone="mask"
        onPaint={paint}
      />
      {input.painted && (
        <div class="buttons">
          <button type="button" onClick={() => (hand.painted.value = null)}>
            Reset the mask
          </button>
        </div>
      )}
    </Step>
  );
}

export function Weights({ input, result }: StepProps) {
  const { weights, dropped } = result.heads[headOf(result)]!;
  const { p } = input.dropout;
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
      text="The weights in each row sum to one; masked keys get zero."
    >
      <PairMatrix
        id="weights"
        symbol={<V>A</V>}
        caption="Attention weights"
        values={weights}
        input={input}
        tone="weight"
      />
      {dropped && (
        <PairMatrix
          id="dropped"
          symbol={
            <>
              <V>Z</V>
              <Op>∗</Op>
              <V>A</V>
            </>
          }
          caption={`Weights after dropout of ${percent(p)}; the remaining ones are divided by ${decimal(1 - p)}`}
          note={`dropout, ÷ ${decimal(1 - p)}`}
          values={dropped}
          input={input}
          tone="weight"
        />
      )}
    </Step>
  );
}

export function Output({ input, result }: StepProps) {
  const { output } = result.heads[headOf(result)]!;
  const joined = numbered('joined', widthOf(result.concatenated), 'h');
  return (
    <Step
      number={6}
      title="Output"
      formula={
        <Formula>
          <V>H</V>
          <Op>=</Op>
          <V>A</V>
          <V part="value">V</V>
        </Formula>
      }
      text="Each row is the average of the values, weighted by a row of A."
    >
      <QueryMatrix
        input={input}
        id="output"
        symbol={<V>H</V>}
        caption="Output of the head"
        values={output}
        columns={numbered('content', widthOf(output), 'h')}
      />
      {input.outputWeight && result.mixed && (
        <>
          <QueryMatrix
            input={input}
            id="joined"
            symbol={
              <>
                <Op>[</Op>
                <Sub of={<V>H</V>} at={<mn>1</mn>} />
                <Op>…</Op>
                <Sub of={<V>H</V>} at={<mi>h</mi>} />
                <Op>]</Op>
              </>
            }
            caption="Concatenated heads"
            note="concatenated heads"
            values={result.concatenated}
            columns={joined}
          />
          <FeatureMatrix
            id="wo"
            symbol={<V>W</V>}
            caption="Output weight W"
            note="output projection"
            values={input.outputWeight}
            rows={joined}
            columns={numbered('mixed', widthOf(input.outputWeight), 'z')}
            onEdit={(row, column, next) => {
              hand.outputWeight.value = replaced(input.outputWeight!, row, column, next);
            }}
          />
          <QueryMatrix
            input={input}
            id="mixed"
            symbol={<V>Z</V>}
            caption="Multi-head output"
            note="all heads"
            values={result.mixed}
            columns={numbered('mixed', widthOf(result.mixed), 'z')}
          />
        </>
      )}
    </Step>
  );
}

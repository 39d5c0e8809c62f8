/** The first two steps of an attention layer: the input, and its projections to queries, keys and values. */
import { Fn, Formula, N, Op, Primed, Projection, Sub, Sup, V } from '../../components/formula';
import type { Matrix as Numbers } from '../../engine/hand';
import { headOf, type StepProps, widthOf } from './shown';
import { focus, hand } from './state';
import { FeatureMatrix, keys, numbered, PositionMatrix, queries, replaced, SourceMatrix, Step } from './step';

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

/** The steps of an attention layer from the scores to the output: for each, a formula, a sentence and the matrices. inputs.tsx has the first two. */
import { Choice } from '../../components/controls';
import { Fn, Formula, Fraction, N, Op, Primed, Products, Root, Sub, V } from '../../components/formula';
import { decimal, percent } from '../../components/numbers';
import { canHover } from '../../state/device';
import { headOf, type StepProps, widthOf } from './shown';
import { hand } from './state';
import { FeatureMatrix, numbered, PairMatrix, QueryMatrix, replaced, Step } from './step';

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

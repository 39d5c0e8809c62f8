/** The frame of a step on the page “Compute”, and its matrices by the axes that they share. */
import type { ComponentChildren } from 'preact';
import { type Axis, Matrix, type MatrixProps } from '../../components/matrix';
import type { Matrix as Numbers, StepsInput } from '../../engine/hand';
import { focus } from './state';

interface StepFrame {
  number: number;
  title: string;
  formula: ComponentChildren;
  text: ComponentChildren;
  children: ComponentChildren;
}

export function Step({ number, title, formula, text, children }: StepFrame) {
  return (
    <section class="step" aria-labelledby={`step-${number}`}>
      <header>
        <h2 id={`step-${number}`}>
          <span class="number">{number}</span> {title}
        </h2>
        <div class="formula">{formula}</div>
        <p>{text}</p>
      </header>
      <div class="matrices">{children}</div>
    </section>
  );
}

type Bound = Omit<MatrixProps, 'focus' | 'rows' | 'columns'>;

/** A matrix with one row per query. */
export const QueryMatrix = ({ input, ...props }: Bound & { input: StepsInput; columns: Axis }) => (
  <Matrix {...props} rows={queries(input)} focus={focus} />
);

/** A matrix with one row per query and one column per key. */
export const PairMatrix = (props: Bound & { input: StepsInput }) => (
  <QueryMatrix {...props} columns={keys(props.input)} />
);

/** A matrix with one row per position of the input; in self-attention, a position is both a query and a key. */
export const PositionMatrix = ({ input, ...props }: Bound & { input: StepsInput; columns: Axis }) => (
  <Matrix {...props} rows={{ axes: input.y ? ['query'] : ['query', 'key'], labels: input.queryNames }} focus={focus} />
);

/** A matrix with one row per position of the second input. */
export const SourceMatrix = ({ input, ...props }: Bound & { input: StepsInput; columns: Axis }) => (
  <Matrix {...props} rows={{ axes: ['key'], labels: input.keyNames }} focus={focus} />
);

/** A weight matrix, which has neither queries nor keys. */
export const FeatureMatrix = (props: Bound & { rows: Axis; columns: Axis }) => <Matrix {...props} focus={focus} />;

export const queries = ({ queryNames }: StepsInput): Axis => ({ axes: ['query'], labels: queryNames });

export const keys = ({ order, keyNames }: StepsInput): Axis => ({
  axes: ['key'],
  labels: order.map((from) => keyNames[from]!),
  places: order,
});

export const numbered = (axis: string, length: number, symbol: string): Axis => ({
  axes: [axis],
  labels: Array.from({ length }, (_, i) => `${symbol}${subscript(i + 1)}`),
});

const subscript = (value: number): string => String(value).replace(/\d/g, (digit) => '₀₁₂₃₄₅₆₇₈₉'[Number(digit)]!);

export const replaced = (rows: Numbers, row: number, column: number, value: number): Numbers =>
  rows.map((entries, i) => (i === row ? entries.map((entry, j) => (j === column ? value : entry)) : entries));

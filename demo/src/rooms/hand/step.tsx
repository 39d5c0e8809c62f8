/** What the steps of the first room are made of: a frame, and matrices between the axes that they share. */
import type { ComponentChildren } from 'preact';
import { type Axis, Matrix, type MatrixProps } from '../../components/matrix';
import type { HandInput, HandResult, Matrix as Numbers } from '../../engine/hand';
import { focus, keyNames, queryNames } from './state';

export interface StepProps {
  input: HandInput;
  result: HandResult;
}

interface StepFrame {
  number: number;
  title: string;
  formula: ComponentChildren;
  text: ComponentChildren;
  /** The step's arithmetic for the word in focus. */
  worked?: ComponentChildren;
  children: ComponentChildren;
}

export function Step({ number, title, formula, text, worked, children }: StepFrame) {
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
      {worked && <div class="worked">{worked}</div>}
    </section>
  );
}

type Bound = Omit<MatrixProps, 'focus' | 'rows' | 'columns'>;

/** A matrix with a row per query. */
export const OfQueries = (props: Bound & { columns: Axis }) => <Matrix {...props} rows={askers()} focus={focus} />;

/** A matrix of every query against every key. */
export const OfPairs = ({ input, ...props }: Bound & { input: HandInput }) => (
  <OfQueries {...props} columns={keys(input)} />
);

/** A matrix with a row per position of the input; in self-attention such a row asks and answers. */
export const OfPositions = ({ cross, ...props }: Bound & { columns: Axis; cross: boolean }) => (
  <Matrix {...props} rows={{ axes: cross ? ['query'] : ['query', 'key'], labels: queryNames.value }} focus={focus} />
);

/** A matrix with a row per position of the second input. */
export const OfSources = (props: Bound & { columns: Axis }) => (
  <Matrix {...props} rows={{ axes: ['key'], labels: keyNames.value }} focus={focus} />
);

/** A matrix that has neither queries nor keys: weights. */
export const OfFeatures = (props: Bound & { rows: Axis; columns: Axis }) => <Matrix {...props} focus={focus} />;

export const askers = (): Axis => ({ axes: ['query'], labels: queryNames.value });

export const keys = ({ order }: HandInput): Axis => ({
  axes: ['key'],
  labels: order.map((from) => keyNames.value[from]!),
  places: order,
});

export const numbered = (axis: string, length: number, symbol: string): Axis => ({
  axes: [axis],
  labels: Array.from({ length }, (_, i) => `${symbol}${subscript(i + 1)}`),
});

const subscript = (value: number): string => String(value).replace(/\d/g, (digit) => '₀₁₂₃₄₅₆₇₈₉'[Number(digit)]!);

export const widthOf = (rows: Numbers): number => rows[0]!.length;

export const replaced = (rows: Numbers, row: number, column: number, value: number): Numbers =>
  rows.map((entries, i) => (i === row ? entries.map((entry, j) => (j === column ? value : entry)) : entries));

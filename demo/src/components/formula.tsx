/** Formulas in MathML, from small pieces that read like the formula. */
import type { ComponentChildren } from 'preact';

type Piece = { children: ComponentChildren };

export const Formula = ({ children, label }: Piece & { label?: string }) => (
  <math aria-label={label}>
    <mrow>{children}</mrow>
  </math>
);
export const V = ({ children }: Piece) => <mi>{children}</mi>;
export const Fn = ({ children }: Piece) => <mi mathvariant="normal">{children}</mi>;
export const Op = ({ children }: Piece) => <mo>{children}</mo>;
export const N = ({ children }: Piece) => <mn>{children}</mn>;
export const Sub = ({ of, at }: { of: ComponentChildren; at: ComponentChildren }) => (
  <msub>
    <mi>{of}</mi>
    <mrow>{at}</mrow>
  </msub>
);
export const Sup = ({ of, to }: { of: ComponentChildren; to: ComponentChildren }) => (
  <msup>
    <mi>{of}</mi>
    <mrow>{to}</mrow>
  </msup>
);
export const Root = ({ children }: Piece) => <msqrt>{children}</msqrt>;
export const Fraction = ({ over, under }: { over: ComponentChildren; under: ComponentChildren }) => (
  <mfrac>
    <mrow>{over}</mrow>
    <mrow>{under}</mrow>
  </mfrac>
);
/** X W^Q and its siblings */
export const Projection = ({ result, input, weight }: { result: string; input: string; weight: string }) => (
  <Formula>
    <V>{result}</V>
    <Op>=</Op>
    <V>{input}</V>
    <Sub of="W" at={<mi>{weight}</mi>} />
  </Formula>
);

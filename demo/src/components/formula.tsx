/** Components for formulas in MathML. */
import type { ComponentChildren } from 'preact';

type Piece = { children: ComponentChildren };
/** Symbols have the colours of queries, keys and values. */
type Part = 'query' | 'key' | 'value' | undefined;

export const Formula = ({ children, label }: Piece & { label?: string }) => (
  <math aria-label={label}>
    <mrow>{children}</mrow>
  </math>
);
export const V = ({ children, part }: Piece & { part?: Part }) => <mi class={part}>{children}</mi>;
export const Fn = ({ children }: Piece) => <mi mathvariant="normal">{children}</mi>;
export const Op = ({ children }: Piece) => <mo>{children}</mo>;
export const N = ({ children }: Piece) => <mn>{children}</mn>;
export const Sub = ({ of, at }: { of: ComponentChildren; at: ComponentChildren }) => (
  <msub>
    <mrow>{of}</mrow>
    <mrow>{at}</mrow>
  </msub>
);
export const Sup = ({ of, to }: { of: ComponentChildren; to: ComponentChildren }) => (
  <msup>
    <mrow>{of}</mrow>
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
/** A′, X′. The prime of the page's typeface is raised already; a superscript would float where no mathematical font is installed. */
export const Primed = ({ of }: { of: string }) => (
  <mrow>
    <mi>{of}</mi>
    <mo class="prime" lspace="0" rspace="0">
      ′
    </mo>
  </mrow>
);
/** Q K^T */
export const Products = () => (
  <>
    <V part="query">Q</V>
    <Sup of={<V part="key">K</V>} to={<mi>⊤</mi>} />
  </>
);
/** Q = X W_Q and likewise for K and V */
export const Projection = ({ name, input, part }: { name: string; input: ComponentChildren; part: Part }) => (
  <Formula>
    <V part={part}>{name}</V>
    <Op>=</Op>
    {input}
    <Sub of={<V part={part}>W</V>} at={<V part={part}>{name}</V>} />
  </Formula>
);

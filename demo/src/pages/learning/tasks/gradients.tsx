/** The norm of each matrix's gradient. */
import { layerCount } from '../../../engine/learning/model';
import { frame } from './session';

const matrices = [
  ['query', 'queries', 'query'],
  ['key', 'keys', 'key'],
  ['value', 'values', 'value'],
  ['output', 'output projection', ''],
  ['up', 'feed-forward, first', ''],
  ['down', 'feed-forward, second', ''],
] as const;
const others = [
  ['embedding', 'embeddings'],
  ['head', 'answers'],
] as const;

export function Gradients() {
  const norms = new Map(frame.value!.gradients?.map(({ name, norm }) => [name, norm]));
  const cell = (name: string) => {
    const norm = norms.get(name);
    return (
      <td class="number" style={{ '--heat': norm === undefined ? 0 : heat(norm) }}>
        {norm === undefined ? '–' : scientific(norm)}
      </td>
    );
  };
  return (
    <section aria-labelledby="gradients-title">
      <h2 id="gradients-title">Gradients</h2>
      <p class="learn">
        The norm of each matrix’s gradient in the last step. AdamW divides gradients by their recent size, so a matrix
        with small ones still learns. Compare the norms between settings, such as with and without 1/√d.
      </p>
      <table class="facts-table gradients" aria-labelledby="gradients-title">
        <thead>
          <tr>
            <th scope="col">Matrix</th>
            {layers.map((layer) => (
              <th key={layer} scope="col" class="number">
                Layer {layer + 1}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {matrices.map(([name, title, role]) => (
            <tr key={name}>
              <th scope="row">
                <span class={role}>{title}</span>
              </th>
              {layers.map((layer) => cell(`layers.${layer}.${name}`))}
            </tr>
          ))}
          {others.map(([name, title]) => (
            <tr key={name}>
              <th scope="row">{title}</th>
              {cell(name)}
              <td />
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const layers = Array.from({ length: layerCount }, (_, layer) => layer);

/** On a logarithmic scale from 1e-5 to 1. */
const heat = (norm: number): number => Math.min(1, Math.max(0, (Math.log10(norm || 1e-9) + 5) / 5));

/** For example 1.2 · 10⁻³ */
function scientific(value: number): string {
  if (value === 0) return '0';
  if (value >= 0.01) return value.toPrecision(2);
  const [digits, power] = value.toExponential(1).split('e');
  return `${digits} · 10${[...power!].map((character) => superscripts[character] ?? '').join('')}`;
}

const superscripts: Record<string, string> = {
  '-': '⁻',
  ...Object.fromEntries([...'⁰¹²³⁴⁵⁶⁷⁸⁹'].map((raised, i) => [i, raised])),
};

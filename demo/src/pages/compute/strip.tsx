/** Scores, weights and output once more, small, at the lower edge: they stay visible while the reader edits a number above them. */
import { useEffect, useState } from 'preact/hooks';
import { decimal } from '../../components/numbers';
import type { Matrix } from '../../engine/hand';
import { headOf, type StepProps } from './shown';
import { keys } from './step';

export function ResultStrip({ input, result }: StepProps) {
  const [isNeeded, setNeeded] = useState(false);
  const head = result.heads[headOf(result)]!;
  const names = keys(input).labels;
  useEffect(() => {
    const visible = new Map<Element, boolean>();
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { target, intersectionRatio } of entries) visible.set(target, intersectionRatio > 0.95);
        setNeeded([...visible.values()].includes(false));
      },
      { threshold: [0, 0.95] },
    );
    for (const table of document.querySelectorAll(':is(#scores, #weights, #output, #mixed) table'))
      observer.observe(table);
    return () => observer.disconnect();
  }, [result.mixed === null]);
  return (
    <div class="strip-place">
      {/* For the eye only: the matrices themselves are read out. */}
      <div class={`strip ${isNeeded ? 'shown' : ''}`} aria-hidden="true">
        <Small
          name="scores A′"
          of={head.scores.map((row) => row.map((entry) => entry * result.scale))}
          rows={input.queryNames}
          columns={names}
        />
        <Small name="weights A" of={head.dropped ?? head.weights} rows={input.queryNames} columns={names} />
        {result.mixed ? (
          <Small name="output Z" of={result.mixed} rows={input.queryNames} />
        ) : (
          <Small name="output H" of={head.output} rows={input.queryNames} />
        )}
      </div>
    </div>
  );
}

function Small({ name, of, rows, columns }: { name: string; of: Matrix; rows: string[]; columns?: string[] }) {
  const largest = Math.max(1e-9, ...of.flat().map(Math.abs));
  return (
    <table>
      <thead>
        <tr>
          <th>{name}</th>
          {of[0]!.map((_, column) => (
            <th key={column}>{columns?.[column]}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {of.map((row, i) => (
          <tr key={i}>
            <th>{rows[i]}</th>
            {row.map((entry, column) => (
              <td key={column} class={entry < 0 ? 'negative' : ''} style={{ '--heat': Math.abs(entry) / largest }}>
                {decimal(entry)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

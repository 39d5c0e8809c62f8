/** The probability of each label, as a bar and a number. */
import { percent } from '../../../components/numbers';
import { series } from '../../inside/projection';

export function Probabilities({ labels, probabilities }: { labels: string[]; probabilities: number[] }) {
  const best = probabilities.indexOf(Math.max(...probabilities));
  return (
    <>
      <ol class="probabilities" aria-label="Probability of each label">
        {labels.map((label, i) => (
          <li key={label} class={i === best ? 'best' : ''}>
            <span>
              <span class="swatch" style={{ background: series[i % series.length] }} /> {label}
            </span>
            <span class="track">
              <span class="filled" style={{ '--share': probabilities[i]!, '--colour': series[i % series.length]! }} />
            </span>
            <span class="score">{percent(probabilities[i]!)}</span>
          </li>
        ))}
      </ol>
      <p class="unseen" role="status">
        {labels[best]}, {percent(probabilities[best]!)}
      </p>
    </>
  );
}

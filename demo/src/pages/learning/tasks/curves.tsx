/** Loss and accuracy by step. */
import type { ComponentChildren } from 'preact';
import { count, decimal, percent } from '../../../components/numbers';
import { Plot } from '../../../components/plot';
import type { Measure } from '../../../engine/learning/trainer';
import { frame, measured } from './session';

export function Curves() {
  const { measures } = frame.value!;
  const { loss, accuracy } = measured.value!;
  const at = measured.value!.step;
  const curve = (y: 'loss' | 'accuracy', label: string, domain: [number, number], format: string, color: string) => (
    <Plot
      label={label}
      dependencies={[measures.length, at, measures[0]]}
      draw={(plot, width) =>
        plot.plot({
          width,
          height: y === 'accuracy' ? 120 : 96,
          marginLeft: 48,
          marginTop: 8,
          marginBottom: 32,
          x: { label: 'step', domain: [0, Math.max(50, measures.at(-1)!.step)], ticks: Math.min(6, width / 70) },
          y: { label: null, grid: true, domain, tickFormat: format, ticks: 4 },
          marks: [
            plot.ruleX([at], { stroke: 'var(--line-strong)', strokeDasharray: '3 3' }),
            plot.lineY(measures, { x: 'step', y, stroke: color, strokeWidth: 2 }),
            plot.dot(
              measures.filter(({ step }) => step === at),
              { x: 'step', y, fill: color, r: 4 },
            ),
          ],
        })
      }
    />
  );
  const most = Math.max(...measures.map((measure: Measure) => measure.loss));
  return (
    <section class="curves" aria-label="Accuracy and loss">
      <Figure caption={`Accuracy on held-out sequences: ${percent(accuracy, 1)} at step ${count(at)}`}>
        {curve(
          'accuracy',
          `Accuracy by step: ${percent(accuracy, 1)} at step ${count(at)}.`,
          [0, 1],
          '.0%',
          'var(--value)',
        )}
      </Figure>
      <Figure caption={`Loss (cross entropy) on the same sequences: ${decimal(loss, 3)}`}>
        {curve('loss', `Loss by step: ${decimal(loss, 3)} at step ${count(at)}.`, [0, most], '.1f', 'var(--query)')}
      </Figure>
    </section>
  );
}

const Figure = ({ caption, children }: { caption: string; children: ComponentChildren }) => (
  <figure>
    <figcaption>
      <h3>{caption}</h3>
    </figcaption>
    {children}
  </figure>
);

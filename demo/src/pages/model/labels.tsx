/** The labels that a classifier gives to the sentences. */
import { effect, signal } from '@preact/signals';
import { classify, type Label, type PretrainedModel } from 'heed';
import { useEffect } from 'preact/hooks';
import { Notice } from '../../components/controls';
import { percent, short } from '../../components/numbers';
import { asFailure, type Failure, inTurn } from '../../engine/heed';
import { latest } from '../../state/latest';
import { texts as written } from '../sentences/state';
import { opened } from './state';

const found = signal<{ model: PretrainedModel; texts: string[]; labels: Label[][] } | null>(null);
const failure = signal<Failure | null>(null);

const find = latest(
  async ({ model, texts }: { model: PretrainedModel; texts: string[] }) => ({
    model,
    texts,
    labels: await inTurn(() => classify(model, texts, { topK: 1 })),
  }),
  (result) => {
    found.value = result;
    failure.value = null;
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);

const follow = () =>
  effect(() => {
    const texts = written.value;
    if (opened.value && texts.length > 0) find({ model: opened.value.model, texts });
  });

export function Labels() {
  useEffect(follow, []);
  const current = found.value?.model === opened.value?.model ? found.value : null;
  return (
    <section class="panel" aria-labelledby="labels">
      <h2 id="labels">Labels</h2>
      <p class="learn">What the model’s classifier says about your sentences.</p>
      {failure.value && <Notice>{failure.value.message}</Notice>}
      {current && (
        <table class="facts-table" id="own-labels">
          <tbody>
            {current.texts.map((text, i) => (
              <tr key={i}>
                <th scope="row">{short(text, 60)}</th>
                <td>{current.labels[i]![0]!.label}</td>
                <td class="number">{percent(current.labels[i]![0]!.score)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

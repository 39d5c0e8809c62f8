/** A sequence that is never trained on, the right answer, and the model's. */
import { plural } from '../../../components/numbers';
import { noAnswer, symbol } from '../../../engine/learning/tasks';
import { frame } from './session';

export function Sequence() {
  const { ids, labels, snapshot } = frame.value!;
  const asked = labels.map((label) => label !== noAnswer);
  const isRight = labels.map((label, i) => label === snapshot.answers[i]);
  const total = asked.filter(Boolean).length;
  const right = isRight.filter(Boolean).length;
  const row = (name: string, values: number[], shows: boolean[], marks = false) => (
    <tr>
      <th scope="row">{name}</th>
      {values.map((id, i) => (
        <td key={i} class={marks && asked[i] ? (isRight[i] ? 'right' : 'wrong') : ''}>
          {shows[i] ? symbol(id) : ''}
          {marks && asked[i] && !isRight[i] && <span class="unseen"> (wrong)</span>}
        </td>
      ))}
    </tr>
  );
  return (
    <section aria-labelledby="sequence-title">
      <h2 id="sequence-title">One sequence</h2>
      <table class="sequence" aria-labelledby="sequence-title" style={{ '--tokens': ids.length }}>
        <tbody>
          {row(
            'The model reads',
            ids,
            ids.map(() => true),
          )}
          {row('Right answer', labels, asked)}
          {row('Its answer', snapshot.answers, asked, true)}
        </tbody>
      </table>
      <p class="timing">
        {right} of {plural(total, 'answer')} right
      </p>
    </section>
  );
}

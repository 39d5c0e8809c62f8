/** A sequence that is never trained on or digits of the reader's own, the right answer, and the model's. */
import { plural } from '../../../components/numbers';
import { noAnswer, readDigits, symbol, tasks } from '../../../engine/learning/tasks';
import { lesson, ownDigits } from '../state';
import { frame } from './session';

export function Sequence() {
  const { ids, labels, snapshot } = frame.value!;
  const total = labels.filter((label) => label !== noAnswer).length;
  const right = labels.filter((label, i) => label === snapshot.answers[i]).length;
  return (
    <section class="one-sequence" aria-labelledby="sequence-title">
      <header>
        <h2 id="sequence-title">One sequence</h2>
        <p class="timing">
          {right} of {plural(total, 'answer')} right
        </p>
      </header>
      <OwnDigits />
      <AnswerTable ids={ids} labels={labels} answers={snapshot.answers} label="One sequence" />
    </section>
  );
}

interface AnswerTableProps {
  ids: readonly number[];
  labels: readonly number[];
  answers: readonly number[];
  label: string;
}

/** What the model reads, the right answers, and the model's. */
export function AnswerTable({ ids, labels, answers, label }: AnswerTableProps) {
  const asked = labels.map((label) => label !== noAnswer);
  const isRight = labels.map((label, i) => label === answers[i]);
  const row = (name: string, values: readonly number[], shows: boolean[], marks = false) => (
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
    <table class="sequence" aria-label={label} style={{ '--tokens': ids.length }}>
      <tbody>
        {row(
          'The model reads',
          ids,
          ids.map(() => true),
        )}
        {row('Right answer', labels, asked)}
        {row('Its answer', answers, asked, true)}
      </tbody>
    </table>
  );
}

function OwnDigits() {
  const task = lesson.task.value;
  const { digits } = tasks[task];
  const read = readDigits(task, ownDigits.value);
  const said = typeof read === 'string' ? read : read ? 'The model reads your digits.' : '';
  return (
    <div class="own-digits">
      <label class="field inline">
        <span>Your own {inWords[digits] ?? digits} digits</span>
        <input
          type="text"
          inputMode="numeric"
          autocomplete="off"
          placeholder="a sequence it never trains on"
          aria-describedby="own-digits-said"
          maxLength={24}
          value={ownDigits.value}
          onInput={(event) => (ownDigits.value = event.currentTarget.value)}
        />
      </label>
      <p id="own-digits-said" class="timing" role="status">
        {said}
      </p>
    </div>
  );
}

const inWords: Record<number, string> = { 8: 'eight', 9: 'nine', 10: 'ten' };

/** How well examples are labelled by a classifier that has not seen them, and which are confused. */
import { percent } from '../../../components/numbers';
import { result } from './state';

const mostShown = 6;

export function LeftOut() {
  const { examples, taught } = result.value!;
  const { labels, leftOut, parts } = taught;
  const tested = leftOut.flatMap((found, i) =>
    found ? [{ ...examples[i]!, probabilities: found.probabilities }] : [],
  );
  const wrong = tested
    .filter(({ label, probabilities }) => label !== labelOf(probabilities))
    .sort((a, b) => Math.max(...b.probabilities) - Math.max(...a.probabilities));
  function labelOf(probabilities: number[]): string {
    return labels[probabilities.indexOf(Math.max(...probabilities))]!;
  }
  const right = tested.length - wrong.length;
  return (
    <section aria-labelledby="left-out-title">
      <h2 id="left-out-title">{parts === examples.length ? 'Leave one out' : `Leave out one of ${parts} parts`}</h2>
      {tested.length === 0 ? (
        <p class="learn">Each label has only one example. With a second one, it can be tested.</p>
      ) : (
        <>
          <p>
            <strong>
              {right} of {tested.length}
            </strong>{' '}
            examples ({percent(right / tested.length)}) get your label from a classifier that was not trained on them.
          </p>
          {wrong.length > 0 && (
            <>
              <h3>Confused</h3>
              <ul class="confused">
                {wrong.slice(0, mostShown).map(({ text, label, probabilities }) => (
                  <li key={text}>
                    “{text}”: you say {label}; without it, {labelOf(probabilities)} (
                    {percent(Math.max(...probabilities))})
                  </li>
                ))}
              </ul>
              {wrong.length > mostShown && <p class="facts">and {wrong.length - mostShown} more</p>}
            </>
          )}
        </>
      )}
    </section>
  );
}

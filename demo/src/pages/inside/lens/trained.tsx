/** The model that the page “Watch it learn” has trained: which of its heads does the work? */
import '../../../styles/learning.css';
import { useEffect } from 'preact/hooks';
import { count, percent } from '../../../components/numbers';
import { heldOut } from '../../../engine/learning/trainer';
import { taskCode } from '../../code/task';
import { learningProgram, trainerSettings } from '../../learning/state';
import { AnswerTable } from '../../learning/tasks/sequence';
import { ablate, ablated, frame } from '../../learning/tasks/session';
import { firstOff, HeadGrid, largestOf } from './head-grid';
import { trainedNotice } from './presets';
import { off } from './state';

export function Trained() {
  const step = frame.value?.snapshot.step;
  const current = ablated.value;
  // The accuracy with all heads is that of an ablation without any.
  useEffect(() => {
    if (step !== undefined) ablate(off.value);
  }, [step, off.value, frame.value?.run]);
  useEffect(() => {
    learningProgram.value = () => {
      const { snapshot, ids } = frame.value ?? {};
      return snapshot ? taskCode(trainerSettings.value, snapshot.step, ids!, off.value) : null;
    };
    return () => {
      learningProgram.value = null;
    };
  }, []);
  if (!frame.value || !current) return <p class="hint">Computing …</p>;
  const { ids, labels } = frame.value;
  const { accuracy, alone, answers, whole } = current.ablation;
  const [layers, heads] = [alone.length, alone[0]!.length];
  const anyOff = firstOff(current.off, layers, heads);
  const changes = alone.map((row) => row.map((value) => value - whole));
  return (
    <section aria-labelledby="lens-trained">
      <h2 id="lens-trained">Switch off heads of the model that you trained</h2>
      <p role="status" class="lens-result">
        After step {count(step!)}: {percent(accuracy, 1)} of the answers to {heldOut} held-out sequences are right
        {anyOff ? `, with all heads ${percent(whole, 1)}` : ''}
      </p>
      <HeadGrid
        layers={layers}
        heads={heads}
        off={off.value}
        setOff={(next) => (off.value = next)}
        changes={changes}
        label="Heads of both layers; arrow keys move between them"
      />
      <AnswerTable ids={ids} labels={labels} answers={answers} label="The sequence and the answers" />
      <p class="hint">
        The colour of a head shows how the accuracy changes if it alone is off: blue where it falls, by at most{' '}
        {percent(largestOf(changes), 1)}. {trainedNotice}{' '}
        {anyOff && (
          <button type="button" onClick={() => (off.value = [])}>
            Switch all on
          </button>
        )}
      </p>
    </section>
  );
}

/** The page “Learning”: its tasks, its trainer, and what its examples say. In Node; learning.browser.test.ts tests the page. */
import { load, type TrainingHeed } from 'heed/train';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TaskName, taskNames } from '../../demo/src/engine/learning/constants';
import { Session, type SessionCommand, type SessionReport } from '../../demo/src/engine/learning/session';
import { drawBatch, noAnswer, readDigits, tasks } from '../../demo/src/engine/learning/tasks';
import { Trainer, type TrainerSettings } from '../../demo/src/engine/learning/trainer';
import { initial } from './learning-settings';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});
afterAll(() => heed?.dispose());

describe('tasks', () => {
  const [ARROW, QUESTION] = [10, 11];
  const check: Record<TaskName, (ids: number[], labels: number[]) => void> = {
    reverse: (ids, labels) => ids.forEach((id, i) => expect(labels[ids.length - 1 - i]).toBe(id)),
    sort(ids, labels) {
      expect(labels.every((label, i) => i === 0 || labels[i - 1]! <= label)).toBe(true);
      for (let digit = 0; digit < 10; digit++)
        expect(labels.filter((label) => label === digit)).toHaveLength(ids.filter((id) => id === digit).length);
    },
    copy(ids, labels) {
      const arrow = ids.indexOf(ARROW);
      expect(labels.slice(0, arrow).every((label) => label === noAnswer)).toBe(true);
      expect(labels.slice(arrow)).toEqual(ids.slice(0, arrow));
      expect([...ids.slice(arrow + 1), labels.at(-1)]).toEqual(ids.slice(0, arrow));
    },
    repeated(ids, labels) {
      const occurs = (id: number) => ids.filter((other) => other === id).length;
      expect(ids[0]).toBe(QUESTION);
      expect(occurs(labels[0]!)).toBe(2);
      expect(new Set(ids).size).toBe(ids.length - 1);
      expect(labels.slice(1).every((label) => label === noAnswer)).toBe(true);
    },
  };

  it.each(taskNames)('%s has the right answers', (name) => {
    const { ids, labels } = drawBatch(tasks[name], 200, 1, 0);
    for (const [i, row] of ids.entries()) {
      expect(row).toHaveLength(tasks[name].length);
      check[name](row, labels[i]!);
    }
  });

  it.each(taskNames)('%s reads digits of the reader, and says what is missing', (name) => {
    const task = tasks[name];
    const digits = task.digits === 9 ? '0 1 2 3 4 5 6 7 3' : '4,4,1,7,0,9,2,8,5,5'.slice(0, 2 * task.digits - 1);
    const { ids, labels } = task.exampleOf(readDigits(name, digits) as number[]);
    expect(ids).toHaveLength(task.length);
    check[name](ids, labels);
    expect(readDigits(name, digits.slice(0, -1))).toBe('One more digit.');
    expect(readDigits(name, '12')).toBe(`${task.digits - 2} more digits.`);
    expect(readDigits(name, 'none')).toBeNull();
  });

  it('asks for a digit that occurs twice', () => {
    expect(readDigits('repeated', '012345678')).toContain('has to occur twice');
    expect(readDigits('repeated', '012345611')).toContain('has to occur twice');
  });

  it('draws the same batch for the same seed and step, and others otherwise', () => {
    const draw = (seed: number, step: number) => drawBatch(tasks.reverse, 8, seed, step).ids.join();
    expect(draw(1, 5)).toBe(draw(1, 5));
    expect(new Set([draw(1, 5), draw(2, 5), draw(1, 6), draw(2, 4), draw(0, 0)]).size).toBe(5);
  });
});

/** Trains until `steps`, and returns what the page shows then. */
function trained(settings: Partial<TrainerSettings>, steps: number) {
  const trainer = new Trainer(heed, { ...initial, ...settings });
  for (let i = 0; i < steps; i++) trainer.train();
  const result = { ...trainer.measure(), ...trainer.snapshot(), shown: trainer.shown };
  trainer.dispose();
  return result;
}

interface Course {
  /** Mean over the heads, before each step. */
  sharpness: number[];
  /** Of each matrix, in each step. */
  gradients: Record<string, number[]>;
  /** After every tenth step, as the page measures. */
  accuracies: number[];
}

/** Trains until `steps`, and returns what the page shows on the way. */
function course(library: TrainingHeed, settings: Partial<TrainerSettings>, steps: number): Course {
  const trainer = new Trainer(library, { ...initial, ...settings });
  const shown: Course = { sharpness: [], gradients: {}, accuracies: [] };
  for (let i = 0; i < steps; i++) {
    shown.sharpness.push(mean(trainer.snapshot().sharpness.flat()));
    trainer.train(() => {
      for (const { name, norm } of trainer.gradientNorms()) {
        shown.gradients[name] ??= [];
        shown.gradients[name].push(norm);
      }
    });
    if (trainer.step % 10 === 0) shown.accuracies.push(trainer.measure().accuracy);
  }
  trainer.dispose();
  return shown;
}

const mean = (values: number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
const median = (values: number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** The mean weight from query i to key `key(i)`, over the queries in [first, L). */
function weightOn(map: Float32Array, length: number, key: (query: number) => number, first = 0): number {
  let sum = 0;
  for (let i = first; i < length; i++) sum += map[i * length + key(i)]!;
  return sum / (length - first);
}

// The builds round differently, so the figures have some margin; on one build they are reproducible bit for bit.
describe('what the examples say', () => {
  it('reverse: which digits occur first, then 99 %, and the other diagonal in layer 2', () => {
    expect(trained({}, 50).accuracy).toBeLessThan(0.4);
    const { accuracy, weights, shown, answers } = trained({}, 170);
    expect(accuracy).toBeGreaterThan(0.985);
    expect(answers).toEqual(shown.labels);
    for (const head of weights[1]!) expect(weightOn(head, 10, (i) => 9 - i)).toBeGreaterThan(0.5);
  });

  it('without positions it stays at the most frequent of the other digits', () => {
    expect(trained({ positions: false }, 200).accuracy).toBeLessThan(0.32);
  });

  // Saturated, training is chaotic: after some steps the builds differ in more than rounding, hence means and medians over steps.
  it.each(['simd128', 'relaxed-simd'] as const)(
    'without 1/√d the softmax saturates and gradients vanish, with %s',
    async (build) => {
      const own = await load({ build });
      const wide = { heads: 1, width: 128 };
      const unscaled = course(own, { ...wide, scale: false }, 150);
      const scaled = course(own, wide, 110);
      own.dispose();
      expect(unscaled.accuracies.at(-1)).toBeLessThan(0.2);
      const late = unscaled.sharpness.slice(30);
      expect(mean(late)).toBeGreaterThan(0.9);
      expect(scaled.sharpness[0]).toBeLessThan(0.3);
      expect(Math.max(...scaled.accuracies)).toBeGreaterThan(0.975);
      for (const name of ['query', 'key'])
        for (const layer of [0, 1]) {
          const typical = ({ gradients }: Course) => median(gradients[`layers.${layer}.${name}`]!.slice(30, 110));
          expect(typical(unscaled)).toBeLessThan(typical(scaled) / 3);
        }
    },
  );

  it('without layer norm it learns as well, at a higher rate better', () => {
    expect(trained({ layerNorm: false }, 180).accuracy).toBeGreaterThan(0.98);
    expect(trained({ layerNorm: false, learningRate: 0.03 }, 110).accuracy).toBeGreaterThan(0.97);
    expect(trained({ learningRate: 0.03 }, 110).accuracy).toBeLessThan(0.2);
  });

  it('with dropout it takes longer', () => {
    expect(trained({ dropout: 0.2 }, 100).accuracy).toBeLessThan(trained({}, 100).accuracy);
    expect(trained({ dropout: 0.2 }, 220).accuracy).toBeGreaterThan(0.985);
  });

  it('one head is enough', () => {
    const { accuracy, weights } = trained({ heads: 1 }, 160);
    expect(accuracy).toBeGreaterThan(0.98);
    expect(weights[1]).toHaveLength(1);
  });

  it('sort: 90 % early, and weights on several keys', () => {
    const { accuracy, sharpness } = trained({ task: 'sort' }, 120);
    expect(accuracy).toBeGreaterThan(0.88);
    expect(mean(sharpness.flat())).toBeLessThan(0.5);
  });

  it('copy: nothing above the diagonal, a second diagonal eight positions back', () => {
    const { accuracy, weights } = trained({ task: 'copy' }, 180);
    expect(accuracy).toBeGreaterThan(0.98);
    for (const map of weights.flat())
      for (let i = 0; i < 16; i++)
        expect([...map.subarray(i * 16 + i + 1, (i + 1) * 16)].every((w) => w === 0)).toBe(true);
    for (const map of weights[1]!) expect(weightOn(map, 16, (i) => i - 8, 8)).toBeGreaterThan(0.6);
  });

  it('repeated: without positions it is learned as well', () => {
    for (const positions of [true, false])
      expect(trained({ task: 'repeated', positions }, 160).accuracy).toBeGreaterThan(0.96);
  });
});

describe('a session', () => {
  /** A session, and all that it has reported. */
  function begin(settings: Partial<TrainerSettings> = {}) {
    const reports: SessionReport[] = [];
    let waiting: (() => void)[] = [];
    const session = new Session(heed, (report) => {
      reports.push(structuredClone(report));
      for (const wake of waiting.splice(0)) wake();
    });
    const handle = (command: SessionCommand) => session.handle(command);
    handle({ type: 'reset', run: 1, settings: { ...initial, ...settings }, digits: null });
    const frame = () => {
      const last = reports.filter((report) => report.type === 'frame').at(-1)!;
      return (last as Extract<SessionReport, { type: 'frame' }>).frame;
    };
    /** Acknowledges frames until one fulfils the condition. */
    const until = async (condition: () => boolean) => {
      while (!condition()) {
        const next = new Promise<void>((resolve) => waiting.push(resolve));
        handle({ type: 'drawn' });
        if (!condition()) await next;
      }
      waiting = [];
    };
    return { session, handle, reports, frame, until };
  }

  it('trains only when asked to, measures, and takes single steps', async () => {
    const { session, handle, frame, until } = begin();
    expect(frame().snapshot.step).toBe(0);
    expect(frame().gradients).toBeNull();
    handle({ type: 'drawn' });
    handle({ type: 'step' });
    expect(frame().snapshot.step).toBe(1);
    expect(frame().training).toBe(false);
    expect(frame().measures.map(({ step }) => step)).toEqual([0, 1]);
    expect(frame().gradients!.every(({ norm }) => norm > 0)).toBe(true);
    handle({ type: 'train' });
    await until(() => frame().snapshot.step >= 12);
    handle({ type: 'pause' });
    await until(() => !frame().training);
    expect(
      frame()
        .measures.map(({ step }) => step)
        .slice(0, 3),
    ).toEqual([0, 1, 10]);
    session.dispose();
  });

  it('goes back to a saved step and repeats itself bit for bit', async () => {
    const { session, handle, frame, until } = begin({ dropout: 0.1 });
    handle({ type: 'train' });
    await until(() => frame().snapshot.step >= 20);
    handle({ type: 'pause' });
    await until(() => !frame().training);
    const end = frame();
    handle({ type: 'drawn' });
    handle({ type: 'rewind', step: 15 });
    expect(frame().snapshot.step).toBe(10);
    expect(frame().saved).toContain(20);
    while (frame().snapshot.step < end.snapshot.step) {
      handle({ type: 'drawn' });
      handle({ type: 'step' });
    }
    expect(frame().snapshot).toEqual(end.snapshot);
    session.dispose();
  });

  it('trains to the step of a link without waiting for drawings, with the bits of single steps', async () => {
    const single = begin();
    for (let i = 0; i < 13; i++) {
      single.handle({ type: 'drawn' });
      single.handle({ type: 'step' });
    }
    single.handle({ type: 'drawn' });
    const { session, handle, frame, until } = begin();
    handle({ type: 'pace', everyStep: true });
    handle({ type: 'train', until: 13 });
    await until(() => frame().snapshot.step >= 13);
    expect(frame()).toMatchObject({ training: false, snapshot: { step: 13 } });
    expect(frame().snapshot).toEqual(single.frame().snapshot);
    expect(frame().gradients).toEqual(single.frame().gradients);
    expect(frame().measures.at(-1)).toEqual(single.frame().measures.at(-1));
    handle({ type: 'drawn' });
    handle({ type: 'train' }); // goes on
    await until(() => frame().snapshot.step > 13);
    for (const one of [session, single.session]) one.dispose();
  });

  it('shows digits of the reader and goes back to its own', () => {
    const { session, handle, frame } = begin();
    const before = frame().ids;
    handle({ type: 'drawn' });
    handle({ type: 'read', digits: [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] });
    expect(frame().labels).toEqual([0, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    expect(frame().snapshot.answers).toHaveLength(10);
    handle({ type: 'drawn' });
    handle({ type: 'read', digits: null });
    expect(frame().ids).toEqual(before);
    session.dispose();
  });

  it('posts one frame per drawing, and waits for it when every step is to be drawn', async () => {
    const { session, handle, frame, reports, until } = begin();
    handle({ type: 'pace', everyStep: true });
    handle({ type: 'train' });
    const before = reports.length;
    await new Promise((resolve) => setTimeout(resolve));
    expect(reports).toHaveLength(before); // the first frame has not been drawn
    await until(() => frame().snapshot.step >= 3);
    const steps = reports.flatMap((report) => (report.type === 'frame' ? [report.frame.snapshot.step] : []));
    expect(steps.filter((step) => step > 0)).toEqual([1, 2, 3]);
    session.dispose();
  });

  it('computes the step that is drawn next, and no more, while the page draws', async () => {
    const { session, handle, frame, until } = begin();
    handle({ type: 'pace', everyStep: true });
    handle({ type: 'train' });
    await until(() => frame().snapshot.step >= 2);
    const drawn = frame().snapshot.step;
    for (let task = 0; task < 20; task++) await new Promise((resolve) => setTimeout(resolve));
    expect(frame().snapshot.step).toBe(drawn);
    handle({ type: 'drawn' }); // what waited is posted at once
    expect(frame().snapshot.step).toBe(drawn + 1);
    expect(frame().gradients!.every(({ norm }) => norm > 0)).toBe(true);
    handle({ type: 'pause' });
    handle({ type: 'drawn' });
    expect(frame()).toMatchObject({ training: false, snapshot: { step: drawn + 2 } });
    session.dispose();
  });

  it('thins out what it has saved', () => {
    const { session, handle, frame } = begin({ width: 32, heads: 1 });
    for (let i = 0; i < 45; i++) {
      handle({ type: 'drawn' });
      handle({ type: 'step' });
    }
    expect(frame().saved).toEqual([0, 10, 20, 30, 40]);
    session.dispose();
  });

  it('reports a failure and can start over', () => {
    const { session, handle, reports, frame } = begin({ learningRate: 1e30 });
    handle({ type: 'drawn' });
    for (let i = 0; i < 5; i++) {
      handle({ type: 'step' });
      handle({ type: 'drawn' });
    }
    const failed = reports.find((report) => report.type === 'failed');
    expect(failed).toMatchObject({ run: 1, failure: { code: 'DIVERGED' } });
    handle({ type: 'reset', run: 2, settings: initial, digits: null });
    handle({ type: 'drawn' });
    expect(frame()).toMatchObject({ run: 2, training: false });
    session.dispose();
  });

  it('frees what it has made', () => {
    const run = () => {
      const { session, handle } = begin();
      handle({ type: 'step' });
      session.dispose();
    };
    for (let i = 0; i < 3; i++) run();
    const before = heed.info.memoryBytes;
    for (let i = 0; i < 30; i++) run();
    expect(heed.info.memoryBytes).toBe(before);
  });
});

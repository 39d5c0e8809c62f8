/** The settings of the pages “Watch it learn” and “Teach it”. They are part of the link, so they are known before the rest of the page has loaded. */
import { batch, computed, type Signal, signal } from '@preact/signals';
import { lastStep, type TaskName, taskNames } from '../../engine/learning/constants';
import type { LabelledText } from '../../engine/learning/examples';
import type { TrainerSettings } from '../../engine/learning/trainer';
import { choice, flag, type HeadPlace, headPlace, integer, number, optional, text } from '../../state/codecs';
import { type Codec, page, reset, urlState } from '../../state/url';

const state = <T>(name: string, initial: T, codec: Codec<T>): Signal<T> => urlState('learn', name, initial, codec);

export const widths = ['32', '64', '128'] as const;
export const headCounts = ['1', '2', '4'] as const;

export const lesson = {
  preset: state('preset', 'reverse', text),
  task: state<TaskName>('task', 'reverse', choice(...taskNames)),
  heads: state<(typeof headCounts)[number]>('heads', '2', choice(...headCounts)),
  width: state<(typeof widths)[number]>('width', '32', choice(...widths)),
  positions: state('positions', true, flag),
  scale: state('scale', true, flag),
  layerNorm: state('norm', true, flag),
  dropout: state('dropout', 0, number(0, 0.5)),
  rate: state('rate', 0.003, number(0.0001, 0.1)),
  seed: state('seed', 1, integer(0, 9999)),
};
type Lesson = typeof lesson;
export type LessonSettings = { [Name in keyof Lesson]: Lesson[Name] extends Signal<infer T> ? T : never };

/** Digits of the reader’s own, shown in place of a sequence that is drawn. */
export const ownDigits = state('digits', '', text);

/** The step to which a link trains. */
export const linkedStep = state('step', 0, integer(0, lastStep));

/** Set by a link to this page that is to start the training. */
export const startsTraining = signal(false);

/** Draw each step, at most as many per second as the display shows; otherwise train as fast as possible. */
export const everyStep = state('every', true, flag);

/** The head that is shown large. */
export const shownHead = {
  place: state<HeadPlace>('head', { layer: 1, head: 0 }, headPlace),
  view: state<'lines' | 'map'>('view', 'map', choice('lines', 'map')),
  token: state<number | null>('token', null, optional(integer(0, 99))),
};

/** Sets all settings to their initial values, except those given. */
export function setLesson(settings: Partial<LessonSettings>): void {
  batch(() => {
    reset([...Object.values(lesson), shownHead.place, shownHead.token, ownDigits] as Signal<unknown>[]);
    for (const [name, value] of Object.entries(settings))
      (lesson[name as keyof Lesson] as Signal<unknown>).value = value;
  });
}

export const trainerSettings = computed(
  (): TrainerSettings => ({
    task: lesson.task.value,
    heads: Number(lesson.heads.value),
    width: Number(lesson.width.value),
    positions: lesson.positions.value,
    scale: lesson.scale.value,
    layerNorm: lesson.layerNorm.value,
    dropout: lesson.dropout.value,
    learningRate: lesson.rate.value,
    seed: lesson.seed.value,
  }),
);

/** The fields have one line each, so tabs and line breaks separate them; 'none': the reader has removed all. */
const labelled: Codec<LabelledText[]> = {
  read: (value) =>
    value === 'none'
      ? []
      : value.split('\n').map((line) => {
          const [label = '', ...rest] = line.split('\t');
          return { label, text: rest.join(' ') };
        }),
  write: (examples) =>
    examples.length === 0 ? 'none' : examples.map(({ label, text }) => `${label}\t${text}`).join('\n'),
};
/** The example set to begin with. */
export const sample = urlState('teach', 'sample', 'topics', text);
/** The reader's own examples and text to try; null: those of the set. */
export const ownExamples = urlState<LabelledText[] | null>('teach', 'examples', null, optional(labelled));
export const ownTest = urlState<string | null>('teach', 'test', null, {
  read: (value) => value,
  write: (value) => value ?? '',
});
/** A classifier that the link holds, as engine/learning/shared.ts writes it; empty: none. */
export const sharedClassifier = urlState('teach', 'classifier', '', text);
/** Where the map shows the texts. */
export const mapView = urlState<'before' | 'after'>('teach', 'map', 'after', choice('before', 'after'));

/** The program of the page that is shown, or of the trained model on the page “Inside”; its state is downloaded with the part. */
export const learningProgram = signal<(() => string | null) | null>(null);

/** Whether everything that a part of the page needs has been loaded; until then opening it makes requests. */
export const loadedParts = signal({ tasks: false, labels: false });
export const loaded = computed(() => loadedParts.value[page.value === 'teach' ? 'labels' : 'tasks']);

/** Examples, each with a sentence that says what to look for. tests/demo/learning-lessons.test.ts trains each of them, so that the sentences are true. */
import type { LessonSettings } from '../state';

interface Preset {
  id: string;
  name: string;
  notice: string;
  settings: Partial<LessonSettings>;
}

export const presets: Preset[] = [{ id: 'reverse', name: 'Reverse', notice: 'TODO', settings: {} }];

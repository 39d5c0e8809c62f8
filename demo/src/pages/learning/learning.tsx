/** The contents of the pages “Watch it learn” and “Teach it”. */
import '../../styles/panels.css';
import '../../styles/learning.css';
import { Labels as Teaching } from './labels/labels';
import { Lesson as Learning } from './tasks/lesson';

export const Lesson = () => (
  <div class="learning">
    <Learning />
  </div>
);
export const Labels = () => (
  <div class="learning">
    <Teaching />
  </div>
);

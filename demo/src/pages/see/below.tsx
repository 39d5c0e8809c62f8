/** Below the stage: all heads at once, the places of the page as chapters, and the tour. */
import '../../styles/below.css';
import { CourseChapter } from '../../components/course-chapter';
import { links } from '../../state/url';
import { AllHeads } from './heads';
import { Recorded } from './recorded';
import { Tour } from './tour';

export function Below() {
  return (
    <>
      <AllHeads />
      <section class="chapters" aria-label="Chapters">
        <Recorded />
        <div class="chapter">
          <h2>Teach it your labels</h2>
          <p>Write a few texts in two or more groups: the model sorts the next text while you type.</p>
          <a class="button" href={links.teach.value}>
            Teach it
          </a>
        </div>
        <div class="chapter">
          <h2>Find a word by its meaning</h2>
          <p>The average of a sentence’s vectors stands for what it says: describe something, and find its word.</p>
          <a class="button" href={links.meaning.value}>
            Search by meaning
          </a>
        </div>
        <div class="chapter">
          <h2>Compute every number</h2>
          <p>
            Queries, keys, values, softmax: attention on matrices that you can edit; explained in{' '}
            <CourseChapter of="04-self-attention" />.
          </p>
          <a class="button" href={links.compute.value}>
            Compute
          </a>
        </div>
      </section>
      <Tour />
    </>
  );
}

/** Search in pictures of the reader's, by a text or by one of the pictures. */
import '../../../styles/pictures.css';
import { Notice } from '../../../components/controls';
import { count, decimal, plural } from '../../../components/numbers';
import { canHover } from '../../../state/device';
import {
  addPictures,
  clearPictures,
  failure,
  leftOut,
  like,
  mostPictures,
  pictures,
  query,
  ranked,
  reading,
  stopReading,
} from './state';

export function PicturesSection({ takesTexts }: { takesTexts: boolean }) {
  return (
    <section class="panel pictures" aria-labelledby="pictures">
      <h2 id="pictures">Search your pictures</h2>
      <p class="learn">
        Each picture becomes a vector, in a worker of this tab.{' '}
        {takesTexts
          ? 'The model puts texts into the same space: a text finds the pictures whose vectors are nearest to its own.'
          : 'The model has no text encoder: choose a picture to find similar ones.'}
      </p>
      <Chooser />
      <Reading />
      {failure.value && <Notice kind="alert">{failure.value.message}</Notice>}
      {pictures.value.length > 0 && takesTexts && (
        <label class="field">
          <span>What is in the picture</span>
          <input
            type="text"
            autocomplete="off"
            maxLength={500}
            value={query.value}
            onInput={(event) => {
              like.value = null;
              query.value = event.currentTarget.value;
            }}
          />
        </label>
      )}
      {like.value && (
        <p class="timing">
          Nearest to {like.value.name}.{' '}
          <button type="button" onClick={() => (like.value = null)}>
            Back
          </button>
        </p>
      )}
      <Grid />
    </section>
  );
}

function Chooser() {
  const take = (event: { currentTarget: HTMLInputElement }) => {
    void addPictures([...(event.currentTarget.files ?? [])].filter(({ type }) => type.startsWith('image/')));
    event.currentTarget.value = '';
  };
  const disabled = reading.value !== null;
  return (
    <div class="buttons">
      <label class="button">
        Choose pictures
        <input type="file" accept="image/*" multiple disabled={disabled} onChange={take} />
      </label>
      <label class="button">
        Choose a folder of pictures
        <input type="file" {...{ webkitdirectory: true }} multiple disabled={disabled} onChange={take} />
      </label>
      {pictures.value.length > 0 && (
        <button type="button" onClick={clearPictures}>
          Clear
        </button>
      )}
    </div>
  );
}

function Reading() {
  const total = pictures.value.length;
  return (
    <div class="reading">
      <p role="status" class="timing">
        {reading.value
          ? 'Reading the pictures …'
          : total > 0
            ? `${plural(total, 'picture')} can be searched.`
            : `Nothing is uploaded. Up to ${count(mostPictures)} pictures${canHover ? ', or drop them on this page' : ''}.`}
      </p>
      {reading.value && (
        <>
          <progress aria-label="Pictures read" value={reading.value.done} max={reading.value.total} />
          <span class="timing">
            {count(reading.value.done)} of {plural(reading.value.total, 'picture')}
          </span>
          <button type="button" onClick={stopReading}>
            Stop
          </button>
        </>
      )}
      {leftOut.value.length > 0 && (
        <Notice>
          This browser cannot show {leftOut.value.slice(0, 4).join(', ')}
          {leftOut.value.length > 4 && ' …'}
        </Notice>
      )}
    </div>
  );
}

/** The best pictures; before there is a query, all of them. */
function Grid() {
  const shown =
    ranked.value.length > 0 ? ranked.value : pictures.value.slice(0, 24).map((picture) => ({ picture, score: null }));
  if (shown.length === 0) return null;
  return (
    <ol class="grid" aria-label="Pictures, best first">
      {shown.map(({ picture, score }) => (
        <li key={picture.url}>
          <button type="button" title="Find pictures like this one" onClick={() => (like.value = picture)}>
            <img src={picture.url} alt={picture.name} decoding="async" />
          </button>
          {score !== null && <span class="score">{decimal(score)}</span>}
        </li>
      ))}
    </ol>
  );
}

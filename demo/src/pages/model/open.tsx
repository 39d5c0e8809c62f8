/** Opens a Hugging Face encoder from a folder or a URL, and lists its contents. */
import { Notice } from '../../components/controls';
import { bytes, count, milliseconds, plural } from '../../components/numbers';
import { Waiting } from '../../components/waiting';
import { ready } from '../../engine/heed';
import { focusSource, Source } from './source';
import { failure, files, opened, progress, stop, stopped } from './state';

export function OpenYourModel() {
  const config = opened.value?.model.config;
  return (
    <>
      {ready.value ? <Source /> : <Waiting what="The form to open a model" />}
      <Loading />
      {stopped.value && <Notice>Loading was cancelled. No new model was opened.</Notice>}
      {failure.value && (
        <Notice kind="alert" title="The model could not be opened. ">
          {failure.value.message}
          {opened.value && ' The previous model is still open.'}
          {failure.value.advice && <p>{failure.value.advice}</p>}
          {failure.value.download && <Downloads of={failure.value.download} />}
        </Notice>
      )}
      <Contents />
      {config?.hasTokenizer === false && config.vocabSize > 0 && (
        <Notice kind="alert">
          The folder has no tokenizer.json, which is needed to turn text into tokens. Add the file and open the folder
          again.
        </Notice>
      )}
    </>
  );
}

function Loading() {
  if (!progress.value) return null;
  const { from, file, done, total } = progress.value;
  const part = total ? { value: done, max: total } : {};
  return (
    <div class="loading">
      <p role="status">Loading the model from {from} …</p>
      <progress aria-label={`The model from ${from}`} {...part} />
      <p class="timing">
        {total ? `${bytes(done)} of ${bytes(total)}` : bytes(done)}
        {file && `, ${file}`}
      </p>
      <button
        type="button"
        onClick={() => {
          stop();
          focusSource();
        }}
      >
        Cancel
      </button>
    </div>
  );
}

/** Links to the files, for hosts that this page cannot read from. */
function Downloads({ of }: { of: string[] }) {
  return (
    <ul>
      {of.map((href) => (
        <li key={href}>
          <a href={href} target="_blank" rel="noreferrer" download>
            {href.split('/').at(-1)}
          </a>
        </li>
      ))}
    </ul>
  );
}

function Contents() {
  if (!opened.value) return null;
  const { model, milliseconds: time } = opened.value;
  const { config } = model;
  const rows: [string, string][] = [
    ['Family', config.family],
    [
      'Shape',
      `${plural(config.numLayers, 'layer')}, ${plural(config.numHeads, 'head')}, width ${config.embedDim}, feed-forward ${config.feedForwardDim}`,
    ],
    ['Parameters', count(config.parameterCount)],
    ...(config.vocabSize > 0
      ? ([
          ['Vocabulary', plural(config.vocabSize, 'token')],
          ['Maximum length', plural(config.maxLength, 'token')],
          ['Sentence vector', `${config.pooling} pooling`],
        ] satisfies [string, string][])
      : []),
    ...(config.labels.length > 0
      ? ([['Labels', config.labels.slice(0, 12).join(', ')]] satisfies [string, string][])
      : []),
    ['Precision', config.dtype === 'q8' ? 'int8' : 'fp32'],
    ['Opened in', milliseconds(time)],
  ];
  if (config.unusedTensors.length)
    rows.push(['Unused', `${plural(config.unusedTensors.length, 'tensor')} that the encoder does not need`]);
  return (
    <section class="panel" aria-labelledby="contents">
      <h2 id="contents">Contents</h2>
      {files.value.length > 0 && (
        <p class="facts">A copied link contains the settings and the sentences, but not the files.</p>
      )}
      <div class="columns">
        <table class="facts-table">
          <tbody>
            {rows.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {files.value.length > 0 && (
          <table class="facts-table">
            <tbody>
              {files.value.slice(0, 20).map(({ path, file }) => (
                <tr key={path}>
                  <th scope="row">{path}</th>
                  <td class="number">{bytes(file.size)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

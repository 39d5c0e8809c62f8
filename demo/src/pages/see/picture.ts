/** The stage as a picture that one can save and share. */
import { isWord } from '../../engine/senses';
import { colour } from '../../state/theme';
import { opacityOf } from './stage';
import { everyLayer, layers, off, rowOf, type View, views } from './state';

const [width, height, scale] = [1200, 630, 2];
/** The top and the height of a layer. */
const [top, step] = [112, 52];

/** Draws both sentences, and hands the picture to the reader as a PNG file. */
export async function savePicture(): Promise<void> {
  const canvas = Object.assign(document.createElement('canvas'), { width: width * scale, height: height * scale });
  const context = canvas.getContext('2d')!;
  context.scale(scale, scale);
  context.fillStyle = colour('--paper');
  context.fillRect(0, 0, width, height);
  for (const side of [0, 1] as const) draw(context, views[side]!.peek(), 40 + side * 580, 540);
  context.font = `16px ${colour('--sans')}`;
  context.fillStyle = colour('--muted');
  const switched = off.peek().length === 0 ? '' : `attention off in layer ${off.peek().join(', ')} · `;
  context.fillText(
    `${switched}${location.host}${location.pathname} · computed in the browser by heed`,
    40,
    height - 24,
  );
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'));
  const href = URL.createObjectURL(blob!);
  Object.assign(document.createElement('a'), { href, download: 'attention.png' }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

function draw(context: CanvasRenderingContext2D, view: View, left: number, room: number): void {
  const { trace, at, words } = view;
  const flow = room - 210;
  const yOf = (number: number) => top + (layers - number + 0.5) * step;
  const text = (what: string, x: number, y: number, font: string, fill: string, most?: number) => {
    context.font = `${font} ${colour(font.includes('sans') ? '--sans' : '--serif')}`.replace(' sans', '');
    context.fillStyle = colour(fill);
    context.fillText(what, x, y, most);
  };
  const last = words?.[layers];
  text(`“${trace.tokens[at] ?? ''}” ends near`, left, 46, '20px', '--muted');
  text(last?.join(', ') ?? '…', left, 84, '600 32px', '--ink', room);
  const lengths = trace.tokens.map((token) => Math.max(3, token.length) + 1.4);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  let passed = 0;
  const centers = lengths.map((length) => {
    passed += length;
    return left + (flow * (passed - length / 2)) / total;
  });
  const x = centers[at] ?? left;
  context.lineCap = 'round';
  for (const number of everyLayer) {
    const [low, high] = [yOf(number - 1), yOf(number)];
    for (const [to, share] of rowOf(view, number)?.entries() ?? []) {
      context.strokeStyle = colour(isWord(trace.tokens[to]!) ? '--ribbon' : '--line');
      context.globalAlpha = opacityOf(share);
      context.lineWidth = share * 30;
      context.beginPath();
      context.moveTo(centers[to]!, low);
      context.bezierCurveTo(centers[to]!, (low + high) / 2, x, (low + high) / 2, x, high);
      context.stroke();
    }
    context.globalAlpha = 1;
  }
  context.strokeStyle = colour('--query');
  context.lineWidth = 3;
  context.beginPath();
  context.moveTo(x, yOf(0));
  context.lineTo(x, yOf(layers));
  context.stroke();
  for (const number of [0, ...everyLayer])
    text(words?.[number]?.slice(0, 2).join(', ') ?? '…', left + flow + 16, yOf(number) + 6, '18px', '--ink', 190);
  context.textAlign = 'center';
  for (const [i, token] of trace.tokens.entries())
    text(token, centers[i]!, yOf(0) + 44, i === at ? '700 16px' : '16px', i === at ? '--query' : '--muted');
  context.textAlign = 'left';
}

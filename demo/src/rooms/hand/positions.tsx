/** The positional encoding as a heat map, and the dot products between positions: large for near ones, small for far ones. */
import { Plot } from '../../components/plot';
import { Waiting } from '../../components/waiting';
import { positions } from './result';

export function PositionPlots() {
  const current = positions.value;
  if (!current) return <Waiting what="The encoding" />;
  const { encoding, products } = current;
  const half = Math.floor(products.length / 2);
  const cells = encoding.flatMap((row, position) => row.map((value, dimension) => ({ position, dimension, value })));
  const curves = [0, half].flatMap((from) =>
    products[from]!.map((product, position) => ({ from: `position ${from}`, position, product })),
  );
  return (
    <div class="plots">
      <figure>
        <figcaption>The encoding: a row per position, sine and cosine in turns, ever slower waves</figcaption>
        <Plot
          label={`Heat map of the positional encoding of ${encoding.length} positions in ${encoding[0]!.length} dimensions; values between -1 and 1.`}
          dependencies={[current]}
          draw={(plot, width) =>
            plot.plot({
              width,
              height: 260,
              marginBottom: 44,
              marginLeft: 56,
              padding: 0,
              x: { label: 'dimension', tickSize: 0 },
              y: { label: 'position', tickSize: 0, ticks: [0, 8, 16, 24, 31] },
              color: { type: 'diverging', scheme: 'RdBu', reverse: true, domain: [-1, 1] },
              marks: [plot.cell(cells, { x: 'dimension', y: 'position', fill: 'value', inset: 0 })],
            })
          }
        />
      </figure>
      <figure>
        <figcaption>Dot products between positions: near ones agree, far ones do not</figcaption>
        <Plot
          label={`Dot products of position 0 and of position ${half} with all positions: ${products[0]![0]!.toFixed(1)} with itself, ${products[0]![1]!.toFixed(1)} with its neighbour, ${products[0]!.at(-1)!.toFixed(1)} with the last.`}
          dependencies={[current]}
          draw={(plot, width) =>
            plot.plot({
              width,
              height: 260,
              marginBottom: 44,
              x: { label: 'position' },
              y: { label: 'dot product', grid: true },
              marks: [
                plot.lineY(curves, {
                  x: 'position',
                  y: 'product',
                  stroke: 'from',
                  strokeWidth: 2,
                  className: 'curves',
                }),
                plot.text(
                  curves,
                  plot.selectMaxY({
                    x: 'position',
                    y: 'product',
                    z: 'from',
                    text: 'from',
                    textAnchor: 'start',
                    dx: 4,
                    dy: -6,
                  }),
                ),
              ],
            })
          }
        />
      </figure>
    </div>
  );
}

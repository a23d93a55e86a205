import type { StreamPreview } from '../../../api/stream-shapes.ts'
import { html } from '../data/html.ts'
import { readColor } from './colors.ts'
import { Drawing } from './drawing.ts'

type Audio = NonNullable<NonNullable<StreamPreview['preview']>['audio']>

const width = 800
const height = 96
const middle = height / 2
const minStroke = 1

/** Samples of full scale take the whole height. */
export function Waveform({ envelope }: Pick<Audio, 'envelope'>) {
  const paint = (context: CanvasRenderingContext2D) => {
    const step = width / envelope.length
    context.fillStyle = readColor('grid')
    context.fillRect(0, middle, width, 1)
    context.fillStyle = readColor('accent')
    for (const [index, range] of envelope.entries()) {
      if (range === null) continue
      const [least = 0, most = 0] = range
      const stroke = Math.max(minStroke, (most - least) * middle)
      context.fillRect(index * step, middle - most * middle, Math.max(1, step), stroke)
    }
  }
  const loudest = Math.max(0, ...envelope.flatMap(range => (range ?? []).map(Math.abs)))
  const label = `Waveform; the loudest sample has ${Math.round(loudest * 100)} % of full scale`
  return html`<${Drawing} style="waveform" ...${{ width, height, paint, label }} version=${envelope} />`
}

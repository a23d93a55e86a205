import { html } from '../data/html.ts'
import { readColor } from './colors.ts'
import { Drawing } from './drawing.ts'

interface CurveProps {
  readonly values: readonly number[]
  readonly times: readonly number[]
  /** The range of the vertical axis, the same for all curves of a request. */
  readonly range: readonly [least: number, most: number]
}

const width = 240
const height = 40
const inset = 2

/** The page shows the range as text. */
export function Curve({ values, times, range: [least, most] }: CurveProps) {
  const [from = 0] = times
  const seconds = Math.max((times.at(-1) ?? 0) - from, Number.EPSILON)
  const toY = (value: number) => height - inset - ((value - least) / (most - least)) * (height - 2 * inset)
  const paint = (context: CanvasRenderingContext2D) => {
    context.fillStyle = readColor('grid')
    context.fillRect(0, toY(0), width, 1)
    context.strokeStyle = readColor('accent')
    context.lineWidth = 1.5
    context.beginPath()
    for (const [index, value] of values.entries())
      context.lineTo((((times[index] ?? from) - from) / seconds) * width, toY(value))
    context.stroke()
  }
  return html`<${Drawing} style="curve" ...${{ width, height, paint }} version=${values} />`
}

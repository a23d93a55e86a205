import { html } from '../data/html.ts'
import { readColor } from './colors.ts'
import { Drawing } from './drawing.ts'
import type { PlotLine } from './lines.ts'

interface SparkProps {
  readonly lines: readonly PlotLine[]
  /** The times in Unix seconds, and then one list of values for each line; the oldest first. */
  readonly columns: readonly (readonly number[])[]
  /** Changes when values in `columns` change, since the arrays stay the same objects. */
  readonly version: number
}

const width = 120
const height = 26
const inset = 2
const windowSeconds = 60
const dash = [3, 2]

/** A small plot of the last minute, without axes, for a row of a table. */
export function Spark({ lines, columns, version }: SparkProps) {
  const paint = (context: CanvasRenderingContext2D) => {
    const [times = [], ...values] = columns
    const last = times.at(-1) ?? 0
    const most = Math.max(1, ...values.flat())
    const toY = (value: number) => height - inset - (value / most) * (height - 2 * inset)
    context.lineWidth = 1.5
    for (const [index, { color, isDashed = false }] of lines.entries()) {
      const line = values[index] ?? []
      // A line of zeros is not drawn, because it would cover the other lines where they are close to 0.
      if (line.every(value => value === 0)) continue
      context.strokeStyle = readColor(color)
      context.setLineDash(isDashed ? dash : [])
      context.beginPath()
      for (const [at, value] of line.entries())
        context.lineTo(width - inset - ((last - (times[at] ?? last)) / windowSeconds) * width, toY(value))
      context.stroke()
    }
  }
  return html`<${Drawing} style="spark" ...${{ width, height, paint, version }} />`
}

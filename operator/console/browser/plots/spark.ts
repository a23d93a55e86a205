import { html } from '../data/html.ts'
import { readColor } from './colors.ts'
import { Drawing } from './drawing.ts'
import type { PlotLine } from './lines.ts'

interface SparkProps {
  readonly lines: readonly PlotLine[]
  /** Times in seconds, then a list of values for each line, oldest first. */
  readonly columns: readonly (readonly number[])[]
  /** Must change when values of `columns` change. */
  readonly version: number
}

const width = 120
const height = 26
const inset = 2
const windowSeconds = 60
const dash = [3, 2]

/** A small plot of the last minute without axes, beside the numbers of a row. */
export function Spark({ lines, columns, version }: SparkProps) {
  const paint = (context: CanvasRenderingContext2D) => {
    const [times = [], ...values] = columns
    const last = times.at(-1) ?? 0
    const most = Math.max(1, ...values.flat())
    const toY = (value: number) => height - inset - (value / most) * (height - 2 * inset)
    context.lineWidth = 1.5
    for (const [index, { color, isDashed = false }] of lines.entries()) {
      const line = values[index] ?? []
      // A line of zeros would cover the bottom of the others.
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

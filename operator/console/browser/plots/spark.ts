import { html } from '../data/html.ts'
import { colorOf } from './colors.ts'
import { Drawing } from './drawing.ts'

export interface SparkProps {
  /** The values, oldest first. The row has their numbers as text. */
  readonly values: readonly number[]
  /** Changes when the values change. */
  readonly version: number
}

const width = 96
const height = 22
const points = 60

/** A small line without axes, beside the numbers of a row. */
export function Spark({ values, version }: SparkProps) {
  const paint = (context: CanvasRenderingContext2D) => {
    const most = Math.max(1, ...values)
    context.strokeStyle = colorOf('accent')
    context.lineWidth = 1.5
    context.beginPath()
    for (const [index, value] of values.entries()) {
      const x = width - 1 - (values.length - 1 - index) * (width / points)
      context.lineTo(x, height - 2 - (value / most) * (height - 4))
    }
    context.stroke()
  }
  return html`<${Drawing} style="spark" ...${{ width, height, paint, version }} />`
}

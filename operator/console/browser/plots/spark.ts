import { useEffect, useRef } from 'preact/hooks'
import { html } from '../data/html.ts'
import { colorOf } from './colors.ts'

export interface SparkProps {
  /** The values, oldest first. The row has their numbers as text. */
  readonly values: readonly number[]
  /** Changes when the values change. */
  readonly version: number
}

const width = 96
const height = 22
const points = 60
/** Pixels of the canvas for one of the page. */
const scale = 2

/** A small line without axes, beside the numbers of a row. */
export function Spark({ values, version }: SparkProps) {
  const canvas = useRef<HTMLCanvasElement>(null)
  useEffect(() => {
    const request = requestAnimationFrame(() => {
      if (canvas.current !== null) drawSpark(canvas.current, values)
    })
    return () => cancelAnimationFrame(request)
  }, [version])
  const size = { width: width * scale, height: height * scale }
  return html`<canvas ref=${canvas} class="spark" ...${size} aria-hidden="true"></canvas>`
}

function drawSpark(canvas: HTMLCanvasElement, values: readonly number[]): void {
  const context = canvas.getContext('2d')
  if (context === null) return
  const most = Math.max(1, ...values)
  context.setTransform(scale, 0, 0, scale, 0, 0)
  context.clearRect(0, 0, width, height)
  context.strokeStyle = colorOf('accent')
  context.lineWidth = 1.5
  context.beginPath()
  for (const [index, value] of values.entries()) {
    const x = width - 1 - (values.length - 1 - index) * (width / points)
    context.lineTo(x, height - 2 - (value / most) * (height - 4))
  }
  context.stroke()
}

import { useEffect, useRef } from 'preact/hooks'
import { html } from '../data/html.ts'
import { onSchemeChange } from './colors.ts'

interface DrawingProps {
  /** Pixels of the page. The style sheet may stretch the drawing. */
  readonly width: number
  readonly height: number
  readonly style: string
  /** Draws on a cleared canvas. */
  readonly paint: (context: CanvasRenderingContext2D) => void
  /** Changes when `paint` draws something else. */
  readonly version: unknown
  /** The content for screen readers; left out if the text beside the drawing has it. */
  readonly label?: string
}

/** Pixels of the canvas for one of the page. */
const scale = 2

/** A canvas that is drawn before the next frame, and again when the scheme of colors changes. */
export function Drawing({ width, height, style, paint, version, label }: DrawingProps) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const drawn = useRef(paint)
  drawn.current = paint
  const draw = () => {
    const context = canvas.current?.getContext('2d')
    if (!context) return
    context.setTransform(scale, 0, 0, scale, 0, 0)
    context.clearRect(0, 0, width, height)
    drawn.current(context)
  }
  useEffect(() => {
    const request = requestAnimationFrame(draw)
    return () => cancelAnimationFrame(request)
  }, [version])
  useEffect(() => onSchemeChange(draw), [])
  const size = { width: width * scale, height: height * scale }
  const described = label === undefined ? { 'aria-hidden': true } : { role: 'img', 'aria-label': label }
  return html`<canvas ref=${canvas} class=${style} ...${size} ...${described}></canvas>`
}

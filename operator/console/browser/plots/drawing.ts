import { useEffect, useRef } from 'preact/hooks'
import { html } from '../data/html.ts'
import { onSchemeChange } from './colors.ts'

interface DrawingProps {
  /** The size in CSS pixels. The style sheet can stretch the drawing. */
  readonly width: number
  readonly height: number
  readonly style: string
  /** Draws on a cleared canvas. */
  readonly paint: (context: CanvasRenderingContext2D) => void
  /** Identifies what `paint` draws: the canvas is drawn again when it changes. */
  readonly version: unknown
  /** The description for screen readers; undefined if the page shows the same content as text. */
  readonly label?: string
}

/** Pixels of the canvas for each CSS pixel, in each direction. */
const scale = 2

/** A canvas that is drawn in the next frame after a change of `version` or of the color scheme. */
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

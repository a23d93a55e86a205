import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { formatRate, formatTime } from '../data/format.ts'
import { html } from '../data/html.ts'
import { onSchemeChange, readColor } from './colors.ts'
import type { PlotLine } from './lines.ts'

interface PlotProps {
  readonly title: string
  /** The times in Unix seconds, and then one list of values for each line. */
  readonly columns: readonly number[][]
  /** Changes when values in `columns` change, since the arrays stay the same objects. */
  readonly version: number
  readonly lines: readonly PlotLine[]
  readonly unit: string
  readonly height?: number
}

const windowSeconds = 15 * 60
const minWindowSeconds = 2 * 60
const defaultHeight = 150

/** The time under the pointer in seconds, which all plots of a page share; undefined without a pointer. */
const hoveredTime = signal<number | undefined>(undefined)

/**
 * A plot of the last 15 minutes. While the pointer is over one plot, all plots of the page show the values at
 * the time under the pointer.
 */
export function Plot(props: PlotProps) {
  const { title, columns, version, lines, unit, height = defaultHeight } = props
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)

  useEffect(() => {
    const element = place.current
    if (element === null) return
    const draw = () => {
      plot.current?.destroy()
      plot.current = new uPlot(buildOptions(lines, element.clientWidth, height), toPlotData(columns), element)
    }
    draw()
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }))
    resize.observe(element)
    const stop = onSchemeChange(draw)
    return () => {
      stop()
      resize.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [columns, height])

  useEffect(() => plot.current?.setData(toPlotData(columns)), [version, columns])

  const valuesAt = (point: number) => lines.map((_, index) => shown(columns[index + 1]?.at(point)))
  const last = valuesAt(-1)
  const described = lines.map(({ label }, index) => `${label} ${last[index]}`).join(', ')
  const pointed = findPoint(columns[0] ?? [], hoveredTime.value)
  const values = pointed === undefined ? last : valuesAt(pointed)
  return html`<figure class="plot">
    <figcaption>
      <span class="plot-title">
        ${title} <span class="unit">${unit}${pointed !== undefined && ` at ${formatTime((columns[0]?.[pointed] ?? 0) * 1000)}`}</span>
      </span>
      <span class="legend">
        ${lines.map(
          ({ label, color, isDashed }, index) =>
            html`<span class="key">
              <i class="swatch ${color} ${isDashed ? 'dashed' : ''}"></i>${label}${' '}
              <b>${values[index]}</b>
            </span>`,
        )}
      </span>
    </figcaption>
    <div ref=${place} class="canvas" role="img" aria-label="${title}, ${unit}: ${described}"></div>
  </figure>`
}

const shown = (value: number | undefined) => (value === undefined ? '–' : formatRate(value))

/** Returns the index of the last point at or before a time; undefined if there is none. */
function findPoint(times: readonly number[], atSeconds: number | undefined): number | undefined {
  if (atSeconds === undefined) return undefined
  const found = times.findLastIndex(time => time <= atSeconds)
  return found === -1 ? undefined : found
}

const toPlotData = (columns: readonly number[][]) => columns as number[][] as unknown as uPlot.AlignedData

function buildOptions(lines: readonly PlotLine[], width: number, height: number): uPlot.Options {
  const axis = {
    stroke: readColor('muted'),
    grid: { stroke: readColor('grid'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  }
  return {
    width,
    height,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: 'page' }, points: { show: false } },
    hooks: { ready: [followPointer], destroy: [clearPointer] },
    // The space on the right is for the label of the last time, half of which is beyond the last point.
    padding: [8, 24, 0, 0],
    scales: { x: { range: computeTimeRange }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.15)] } },
    axes: [
      {
        ...axis,
        size: 24,
        space: 70,
        values: [[1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1]],
      },
      { ...axis, size: 44, space: 30, values: (_, splits) => splits.map(split => formatRate(split)) },
    ],
    series: [
      {},
      ...lines.map(({ label, color, isDashed }) => ({
        label,
        stroke: readColor(color),
        width: 1.75,
        points: { show: false },
        ...(isDashed && { dash: [5, 4] }),
      })),
    ],
  }
}

function followPointer({ over, posToVal }: uPlot): void {
  over.addEventListener('mousemove', ({ offsetX }) => {
    hoveredTime.value = posToVal(offsetX, 'x')
  })
  over.addEventListener('mouseleave', clearPointer)
}

function clearPointer(): void {
  hoveredTime.value = undefined
}

/** Returns 15 minutes, or less while there are fewer points, but at least 2 minutes. */
function computeTimeRange(plot: uPlot): [number, number] {
  const last = plot.data[0].at(-1) ?? Date.now() / 1000
  const first = plot.data[0][0] ?? last
  return [Math.max(last - windowSeconds, Math.min(first, last - minWindowSeconds)), last]
}

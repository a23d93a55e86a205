import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import type { HistoryAnswer, SeriesPointEvent } from '../../../api/shapes.ts'
import { createSeriesBuffer, type SeriesBuffer } from '../data/series-buffer.ts'
import { fetchJson, type QueryParameters } from './api.ts'
import { type EventStream, openStream } from './event-stream.ts'

interface Series {
  /** Allowed, rejected, near and shadow hits a second. */
  readonly buffer: SeriesBuffer
  /** Changes with each point. */
  readonly version: Signal<number>
  readonly stream: Signal<EventStream | undefined>
}

/** Reads the past of a domain or a rule, and then streams its hits while the component is shown. */
export function useSeries(domain: string, rule?: string): Series {
  const version = useSignal(0)
  const stream = useSignal<EventStream | undefined>(undefined)
  const buffer = useMemo(() => createSeriesBuffer(4, plotCapacity), [domain, rule])
  useEffect(() => {
    const gone = new AbortController()
    const push = ({ atMs, allowed, refused, near, shadow }: Omit<SeriesPointEvent, 'pods' | 'calls'>) => {
      buffer.push(atMs / 1000, [allowed, refused, near, shadow])
      version.value += 1
    }
    readHistory({ domain, rule }, gone.signal).then(points => {
      if (gone.signal.aborted) return
      for (const point of points) push(point)
      stream.value = openStream<SeriesPointEvent>('/series', { domain, rule }, push)
    })
    return () => {
      gone.abort()
      stream.value?.close()
      stream.value = undefined
    }
  }, [domain, rule])
  return { buffer, version, stream }
}

/** 15 minutes of live points, and the points of the history before them. */
export const plotCapacity = 1_100

/** Returns the points of the last 15 minutes; none if they cannot be read, since the plot then begins now. */
export async function readHistory(
  parameters: QueryParameters,
  signal: AbortSignal,
): Promise<HistoryAnswer['points']> {
  try {
    return (await fetchJson<HistoryAnswer>('/history', { parameters, signal })).points
  } catch {
    return []
  }
}

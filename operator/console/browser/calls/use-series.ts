import { useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import type { HistoryAnswer, SeriesPointEvent } from '../../../api/shapes.ts'
import { SeriesBuffer } from '../data/series-buffer.ts'
import { fetchJson, type QueryParameters } from './api.ts'
import { EventStream } from './event-stream.ts'

/**
 * Reads the history of a domain or a rule, and then streams new points while the component is shown. A point
 * in `buffer` has the allowed, rejected, near and shadow hits per second. `version` changes with each point.
 */
export function useSeries(domain: string, rule?: string) {
  const version = useSignal(0)
  const stream = useSignal<EventStream<SeriesPointEvent> | undefined>(undefined)
  const buffer = useMemo(() => new SeriesBuffer(4, plotCapacity), [domain, rule])
  useEffect(() => {
    const unmounted = new AbortController()
    const push = ({ atMs, allowed, refused, near, shadow }: Omit<SeriesPointEvent, 'pods' | 'calls'>) => {
      buffer.push(atMs / 1000, [allowed, refused, near, shadow])
      version.value += 1
    }
    readHistory({ domain, rule }, unmounted.signal).then(points => {
      if (unmounted.signal.aborted) return
      for (const point of points) push(point)
      stream.value = new EventStream<SeriesPointEvent>('/series', { domain, rule }, push)
    })
    return () => {
      unmounted.abort()
      stream.value?.close()
      stream.value = undefined
    }
  }, [domain, rule])
  return { buffer, version, stream }
}

/**
 * The capacity of a plot: 900 live points, one for each second of 15 minutes, and 180 points of the history
 * before them.
 */
export const plotCapacity = 1_100

/** Resolves with the points of the last 15 minutes, or with none if they cannot be read. */
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

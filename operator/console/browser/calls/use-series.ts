import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import type { SeriesPointEvent } from '../../../api/shapes.ts'
import { createSeriesBuffer, type SeriesBuffer } from '../data/series-buffer.ts'
import { type EventStream, openStream } from './event-stream.ts'
import { plotCapacity, readHistory } from './read-history.ts'

export interface Series {
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

import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import type { SeriesPointEvent } from '../../../api/shapes.ts'
import { createSeriesBuffer, type SeriesBuffer } from '../data/series-buffer.ts'
import { type EventStream, openStream } from './event-stream.ts'

export interface Series {
  /** Allowed, refused, near and shadow hits a second. */
  readonly buffer: SeriesBuffer
  /** Changes with each point. */
  readonly last: Signal<SeriesPointEvent | undefined>
  readonly stream: Signal<EventStream | undefined>
}

/** Five minutes. */
const capacity = 300

/** Streams the hits of a domain or a rule while the component is shown. */
export function useSeries(domain: string, rule?: string): Series {
  const last = useSignal<SeriesPointEvent | undefined>(undefined)
  const stream = useSignal<EventStream | undefined>(undefined)
  const buffer = useMemo(() => createSeriesBuffer(4, capacity), [domain, rule])
  useEffect(() => {
    last.value = undefined
    const opened = openStream<SeriesPointEvent>('/series', { domain, rule }, point => {
      buffer.push(point.atMs / 1000, [point.allowed, point.refused, point.near, point.shadow])
      last.value = point
    })
    stream.value = opened
    return () => opened.close()
  }, [domain, rule])
  return { buffer, last, stream }
}

import type { SoakSample } from './measure-soak.ts'

/**
 * The allowed growth from the first sample to the last. Tables and plots differ by what they show; a leak of
 * each move or call exceeds the bounds in less than 100 of them.
 */
const bounds = { heapMiB: 3, nodes: 600, listeners: 60, operatorMiB: 40 } as const
/** The buffers of the plots have five minutes. Until they are full, the heap also grows by their values. */
export const buffersMinutes = 5
const bufferedMiBPerMinute = 1

/** Returns what has grown beyond its bound, one line each. */
export function growthFaults(first: SoakSample, last: SoakSample): readonly string[] {
  const filled = ({ minutes }: SoakSample) => Math.min(minutes, buffersMinutes)
  const buffered = bufferedMiBPerMinute * (filled(last) - filled(first))
  const allowed = { ...bounds, heapMiB: bounds.heapMiB + buffered }
  return (Object.keys(bounds) as (keyof typeof bounds)[])
    .filter(name => !(last[name] - first[name] <= allowed[name]))
    .map(name => `${name} grew from ${first[name]} to ${last[name]}, by more than ${allowed[name]}`)
}

import type { HistoryAnswer } from '../../../api/shapes.ts'
import { call, type Parameters } from './api.ts'

/** 15 minutes of live points, and the points of the history before them. */
export const plotCapacity = 1_100

/** Returns the points of the last 15 minutes; none if they cannot be read, since the plot then begins now. */
export async function readHistory(
  parameters: Parameters,
  signal: AbortSignal,
): Promise<HistoryAnswer['points']> {
  try {
    return (await call<HistoryAnswer>('/history', { parameters, signal })).points
  } catch {
    return []
  }
}

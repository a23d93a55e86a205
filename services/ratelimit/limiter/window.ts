import type { Unit } from '../rules/config.ts'
import { unitSeconds } from '../rules/config.ts'

/** The start of the window that `nowSeconds` is in; windows are aligned to the epoch. */
export function windowStart(nowSeconds: number, unit: Unit): number {
  return nowSeconds - (nowSeconds % unitSeconds[unit])
}

/** Seconds until that window ends, from 1 to the unit's length. */
export function secondsUntilReset(nowSeconds: number, unit: Unit): number {
  return unitSeconds[unit] - (nowSeconds % unitSeconds[unit])
}

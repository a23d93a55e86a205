import { resolveSrv as resolveBySystem } from 'node:dns/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import { createRefreshSchedule } from '../refresh-schedule.ts'
import { parseServerList, type ServerAddress } from './server-list.ts'

/** Looks up the records of a whole name; a name without records may reject or answer none. */
export type ResolveSrv = (
  name: string,
) => Promise<readonly { readonly name: string; readonly port: number }[]>

export interface SrvWatchOptions {
  /** `_service._proto.name`. */
  readonly name: string
  /** The system's when left out. */
  readonly resolve?: ResolveSrv
  /** How often it is looked up again; 0 for never once it has been found. */
  readonly refreshMs: number
  /** Told the servers in the reference's order, after each look-up that found some. */
  readonly onServers: (servers: readonly ServerAddress[]) => void
  /** Told why a look-up found none, once for a row of such look-ups; what was told before still holds. */
  readonly onProblem: (problem: string) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** The system's when left out. */
  readonly clock?: Clock
}

/** The wait while nothing is found; the schedule draws between half and all of it. */
const hurryMs = 1_000

/**
 * Looks the servers up now, and then again and again.
 *
 * @throws Error when the name has not the form of a service record, in the reference's words.
 */
export function watchSrv(options: SrvWatchOptions): { close(): void } {
  const { name, resolve = resolveBySystem, refreshMs, onServers, onProblem, random, clock } = options
  if (!/^_.+?\._.+?\..+$/.test(name)) throw new Error(`could not parse ${name} to SRV parts`)
  let problem: string | undefined = ''
  let closed = false
  const schedule = createRefreshSchedule({
    refresh,
    isSettled: () => problem === undefined,
    everyMs: refreshMs,
    hurryMs,
    random,
    ...(clock === undefined ? {} : { clock }),
  })

  async function refresh(): Promise<void> {
    const found = await lookUp()
    if (closed) return
    if ('problem' in found) {
      if (found.problem !== problem) onProblem(found.problem)
      problem = found.problem
      return
    }
    problem = undefined
    onServers(found.servers)
    if (refreshMs === 0) schedule.close()
  }

  async function lookUp() {
    try {
      const records = await resolve(name)
      return { servers: parseServerList(inOrder(records)) }
    } catch (error) {
      return { problem: `Unable to fetch servers from SRV: ${(error as Error).message}` }
    }
  }

  return {
    close() {
      closed = true
      schedule.close()
    },
  }
}

/**
 * Sorted as texts, whatever their priority and weight, since all processes must have the same order. The
 * reference's names end with the root's dot, and that decides where one name begins with another.
 */
function inOrder(records: readonly { readonly name: string; readonly port: number }[]): readonly string[] {
  const rooted = records.map(({ name, port }) => `${name.replace(/\.$/, '')}.:${port}`)
  return rooted.sort((a, b) => (a < b ? -1 : Number(a > b))).map(text => text.replace('.:', ':'))
}

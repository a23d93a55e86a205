import { resolveSrv as resolveBySystem } from 'node:dns/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import { RefreshSchedule } from '../connections/refresh-schedule.ts'
import { parseServerList, type ServerAddress } from './server-list.ts'

/** Looks up the SRV records of a full name. For an unknown name it may reject or resolve with no records. */
export type ResolveSrv = (
  name: string,
) => Promise<readonly { readonly name: string; readonly port: number }[]>

interface SrvWatchOptions {
  readonly name: string
  readonly resolve?: ResolveSrv | undefined
  /** The interval of lookups in milliseconds; with 0, lookups end after the first success. */
  readonly refreshMs: number
  /** Called after each successful lookup with the servers, sorted as envoyproxy/ratelimit sorts them. */
  readonly onServers: (servers: readonly ServerAddress[]) => void
  /**
   * Called with the reason when a lookup fails; not called again while lookups fail with the same reason. The
   * servers that were last found stay in use.
   */
  readonly onProblem: (problem: string) => void
  readonly random: () => number
  readonly clock: Clock
}

/** The delay between lookups while they fail. Jitter shortens it by at most half. */
const urgentMs = 1_000

/**
 * Looks up the servers, at once and then repeatedly, until it is closed.
 *
 * @throws Error with the text of envoyproxy/ratelimit when the name is not that of an SRV record.
 */
export function watchSrv(options: SrvWatchOptions): { close(): void } {
  const { name, resolve = resolveBySystem, refreshMs, onServers, onProblem, random, clock } = options
  if (!/^_.+?\._.+?\..+$/.test(name)) throw new Error(`could not parse ${name} to SRV parts`)
  let problem: string | undefined = ''
  let closed = false
  const schedule = new RefreshSchedule({
    refresh,
    isSettled: () => problem === undefined,
    everyMs: refreshMs,
    urgentMs,
    random,
    clock,
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
 * Sorts as text and ignores priority and weight, because all processes must have the same order. The sorted
 * texts have the dot of the root behind the name, as in envoyproxy/ratelimit: the dot decides the order where
 * one name is a prefix of another.
 */
function inOrder(records: readonly { readonly name: string; readonly port: number }[]): readonly string[] {
  const rooted = records.map(({ name, port }) => `${name.replace(/\.$/, '')}.:${port}`)
  return rooted.sort((a, b) => (a < b ? -1 : Number(a > b))).map(text => text.replace('.:', ':'))
}

import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  DomainTotalsSchema,
  SessionReportSchema,
  type SessionRequest,
  SessionRequestSchema,
  type Subscribe,
  Subscribe_What as What,
} from '@tollway/proto/tollway/operator/v1/counters'
import { processSessionPath } from '../../operator/ratelimit-queries/process-session.ts'
import { startDeadlineMs } from '../support/wait-for.ts'

type Report = MessageInitShape<typeof SessionReportSchema>

const codec: Codec<SessionRequest, Report> = {
  decode: bytes => fromBinary(SessionRequestSchema, bytes),
  encode: report => toBinary(SessionReportSchema, create(SessionReportSchema, report)),
}

export interface SimulatedPodOptions {
  /** The number of domains, and of the rules of each. */
  readonly domains: number
  readonly rulesPerDomain: number
  /** The rules of each domain that have hits between two reports. */
  readonly changedRules: number
}

const totalsMs = 5_000
const watchedMs = 1_000

/** The name of a domain of the load. */
export const domainName = (index: number) => `load${index}`

/**
 * A rate limit process as the operator sees it: a Hello, all totals, deltas of them every 5 s, and a report
 * each second for each subscription. Stops when the signal is aborted.
 *
 * @param delayMs the time until its first delta, so that pods do not report together
 */
export async function simulatePod(
  feedPort: number,
  uid: string,
  { domains, rulesPerDomain, changedRules }: SimulatedPodOptions,
  delayMs: number,
  signal: AbortSignal,
): Promise<void> {
  // On a loaded machine, connections of many pods at once take seconds.
  const client = createGrpcClient(`127.0.0.1:${feedPort}`, { connectTimeoutMs: startDeadlineMs })
  const call = client.bidi(processSessionPath, codec, { signal })
  const send = (report: NonNullable<Report['report']>) => void call.write({ report })
  const subscriptions = new Map<bigint, Subscribe>()
  let hits = 0

  function totals(rules: number, whole: boolean): void {
    hits += 10
    const all = (count: number) => Array.from({ length: rules }, () => count)
    const list = Array.from({ length: domains }, (_, index) => {
      const domain = domainName(index)
      const changed = all(0).map((_, rule) => `${domain}.user${rule}`)
      const counts = { allowed: all(hits), refused: all(hits / 10), near: all(1) }
      return create(DomainTotalsSchema, { domain, rules: rulesPerDomain, whole, changed, ...counts })
    })
    const value = { domains: list, decisions: 5_000n, p50Ms: 0.2, p99Ms: 1, intervalMs: BigInt(totalsMs) }
    send({ case: 'totals', value })
  }

  function watched(id: bigint, { what, maxTapped }: Subscribe): void {
    if (what === What.SERIES) send({ case: 'series', value: { id, allowed: 100n, refused: 10n } })
    if (what === What.TAP) {
      const decisions = decisionsOf(uid, Math.min(sampledDecisions, maxTapped || sampledDecisions))
      send({ case: 'tap', value: { id, decisions, skipped: BigInt(100 - decisions.length) } })
    }
    if (what === What.TOP) send({ case: 'top', value: { id, keys: [], sinceMs: 1_000n } })
  }

  send({ case: 'hello', value: { uid, pod: uid, namespace: 'load', backend: 'redis', features: ['tap'] } })
  totals(rulesPerDomain, true)
  const timers: NodeJS.Timeout[] = []
  timers.push(
    setTimeout(() => timers.push(setInterval(() => totals(changedRules, false), totalsMs)), delayMs),
  )
  const report = () => {
    for (const [id, subscription] of subscriptions) watched(id, subscription)
  }
  timers.push(setTimeout(() => timers.push(setInterval(report, watchedMs)), delayMs % watchedMs))
  try {
    for await (const { request } of call.messages) {
      if (request.case === 'subscribe') subscriptions.set(request.value.id, request.value)
      if (request.case === 'unsubscribe') subscriptions.delete(request.value.id)
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    for (const timer of timers) clearTimeout(timer)
    client.close()
  }
}

const sampledDecisions = 50

function decisionsOf(uid: string, count: number) {
  return Array.from({ length: count }, (_, index) => ({
    ...{ atMs: 1n, entries: [{ key: 'user0', value: `${uid}-${index}` }], rule: 'load0.user0' },
    ...{ over: index % 10 === 0, reason: 'below the limit of 100 per minute', hits: 1n, limit: 100n },
  }))
}

import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '@tollway/ratelimit/rules/config.ts'
import {
  encodeRateLimitDomain,
  rateLimitTypeUrl,
} from '../../operator/kinds/rate-limit-config/encode-rate-limit-domain.ts'
import { createFeed } from '../../operator/xds/server.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { waitFor } from './wait-for.ts'

/** The operator's feed with given domains, for processes of the rate limit service. */
export interface RuleFeed {
  /** The settings of a process that follows the feed; `uid` names it. */
  settings(uid: string): Readonly<Record<string, string>>
  /** Replaces all domains. */
  publish(domains: readonly RateLimitDomain[]): void
  /** Resolves when the process has acknowledged the domains that were published last. */
  acknowledged(uid: string): Promise<void>
  /** Returns the texts with which the process has rejected the domains that were published last. */
  rejection(uid: string): string
  stop(): Promise<void>
}

export async function startRuleFeed(domains: readonly RateLimitDomain[]): Promise<RuleFeed> {
  let streams = 0
  const ids = () => `${++streams}`
  const feed = createFeed({ typeUrls: [rateLimitTypeUrl], ids, clock: systemClock, log: silentLog })
  const onDefect = (_: string, error: unknown) => {
    throw error
  }
  const server = createGrpcServer({ methods: feed.methods, onDefect })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  if (!('port' in bound)) throw new Error('the feed has no port')
  let resources = domains.map(encodeRateLimitDomain)
  const publish = (next: readonly RateLimitDomain[]) => {
    resources = next.map(encodeRateLimitDomain)
    feed.publish(createSnapshot(rateLimitTypeUrl, resources))
  }
  const enforcement = (uid: string) => feed.enforcement(rateLimitTypeUrl, [uid])
  publish(domains)
  return {
    publish,
    settings: uid => ({
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${bound.port}`,
      CONFIG_GRPC_XDS_NODE_METADATA: `uid:${uid}`,
    }),
    async acknowledged(uid) {
      const isDone = () => resources.every(each => enforcement(uid)(each).acknowledged.has(uid))
      await waitFor('the acknowledgement', isDone)
    },
    rejection: uid =>
      resources.flatMap(each => enforcement(uid)(each).refusals.map(({ message }) => message)).join('\n'),
    async stop() {
      feed.close()
      await server.drain(0)
    },
  }
}

/** Returns a domain whose only descriptor has the key and these fields. */
export function domainOf(domain: string, key: string, fields: Partial<RateLimitRule>): RateLimitDomain {
  const flags = { shadowMode: false, detailedMetric: false, quotaMode: false }
  const rule = { ...flags, valueToMetric: false, shareThreshold: false, key, value: '', descriptors: [] }
  return { name: `default/${domain}`, domain, descriptors: [{ ...rule, ...fields }] }
}

/** Returns a limit of requests per unit with these fields. */
export function policy(unit: string, requestsPerUnit: number, more: Partial<RateLimitPolicy> = {}) {
  return { unit, requestsPerUnit, unlimited: false, name: '', replaces: [], ...more }
}

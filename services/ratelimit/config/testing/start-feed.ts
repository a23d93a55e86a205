import type { TestContext } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { FeedConnection } from '@tollway/xds-client/feed-connection.ts'
import type { Response } from '../../../xds-client/testing/management-server.ts'
import { XdsFeed } from '../../../xds-client/xds-feed.ts'
import { rateLimitTypeUrl } from '../../rules/model.ts'
import { subscribe } from '../open-feed.ts'
import { openConfiguration } from './open-configuration.ts'

/** Starts a feed that loads a configuration from a management server. */
export function startFeed(
  t: TestContext,
  server: string,
  options: Partial<ConstructorParameters<typeof FeedConnection>[0]> = {},
) {
  const under = openConfiguration('camel')
  const { configuration, log } = under
  const feed = new XdsFeed({
    ...subscribe(configuration),
    connection: new FeedConnection({ server, maxReceiveBytes: 1024 * 1024, ...options }),
    nodeId: 'pod-1',
    nodeMetadata: new Map([['uid', 'u-1']]),
    connectRetryMs: 20,
    backoff: { initialMs: 10, maxMs: 40, factor: 2, jitter: 0 },
    random: () => 0.5,
    clock: systemClock,
    log,
  })
  feed.start()
  t.after(() => feed.stop())
  return { ...under, feed }
}

/**
 * Builds a response from `a:1 b:2`: domains, each with one limit. A limit that is not a number becomes an
 * invalid unit.
 */
export function response(version: string, text: string, more: Partial<Response> = {}): Response {
  const words = text.split(' ').filter(word => word !== '')
  const resources = words.map(word => {
    const [domain = '', limit] = word.split(':')
    const count = Number(limit)
    const rateLimit = Number.isNaN(count)
      ? { unit: RateLimitUnit.UNKNOWN }
      : { unit: RateLimitUnit.MINUTE, requestsPerUnit: count }
    const config = create(RateLimitConfigSchema, {
      name: `shop/${domain}`,
      domain,
      descriptors: [{ key: 'k', rateLimit }],
    })
    return { typeUrl: rateLimitTypeUrl, value: toBinary(RateLimitConfigSchema, config) }
  })
  return { versionInfo: version, typeUrl: rateLimitTypeUrl, nonce: `nonce of ${version}`, resources, ...more }
}

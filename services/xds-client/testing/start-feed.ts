import type { TestContext } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import type { DiscoveryResponse } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { checkType } from '../discovery-session.ts'
import { FeedConnection } from '../feed-connection.ts'
import { XdsFeed } from '../xds-feed.ts'
import type { Response } from './management-server.ts'

/** The resource type of these tests. A resource is a name and a number as text: `a:1`. */
export const textTypeUrl = 'type.googleapis.com/test.Text'

/** Creates a loader of texts, like that of a service, which counts its calls. */
function createTexts() {
  const counts = { loads: 0, rejections: 0 }
  let inForce: string | undefined
  return {
    counts,
    inForce: () => inForce,
    async load({ typeUrl, resources }: DiscoveryResponse): Promise<readonly string[]> {
      const texts = resources.map(({ value }) => Buffer.from(value).toString())
      const problems = texts.filter(text => text.endsWith(':wrong')).map(text => `${text}: is not a number`)
      try {
        checkType(typeUrl, textTypeUrl)
      } catch (error) {
        problems.push(`response: ${(error as Error).message}`)
      }
      if (problems.length > 0) counts.rejections += 1
      else {
        counts.loads += 1
        inForce = texts.join(' ')
      }
      return problems
    },
  }
}

type Options = Partial<
  ConstructorParameters<typeof XdsFeed>[0] & Omit<ConstructorParameters<typeof FeedConnection>[0], 'server'>
>

/** Starts a feed of texts; returns the active texts and the log. */
export function startFeed(t: TestContext, server: string, options: Options = {}) {
  const { counts, inForce, load } = createTexts()
  const warnings: string[] = []
  const log: Log = options.log ?? {
    ...silentLog,
    warn: (message, fields) => void warnings.push([message, ...Object.values(fields ?? {})].join(' ')),
  }
  const { tls, metadata, maxReceiveBytes = 1024 * 1024, keepaliveMs, ...feedOptions } = options
  const feed = new XdsFeed({
    typeUrl: textTypeUrl,
    load,
    connection: new FeedConnection({ server, tls, metadata, maxReceiveBytes, keepaliveMs, log }),
    nodeId: 'pod-1',
    nodeMetadata: new Map([['uid', 'u-1']]),
    connectRetryMs: 20,
    backoff: { initialMs: 10, maxMs: 40, factor: 2, jitter: 0 },
    random: () => 0.5,
    clock: systemClock,
    log,
    ...feedOptions,
  })
  feed.start()
  t.after(() => feed.stop())
  return { feed, log, warnings, inForce, loads: () => counts.loads, rejections: () => counts.rejections }
}

/** Builds a response from a text such as `a:1 b:2`: two resources. `a:wrong` makes the loader reject it. */
export function response(version: string, text: string, more: Partial<Response> = {}): Response {
  const words = text.split(' ').filter(word => word !== '')
  const resources = words.map(word => ({ typeUrl: textTypeUrl, value: Buffer.from(word) }))
  return { versionInfo: version, typeUrl: textTypeUrl, nonce: `nonce of ${version}`, resources, ...more }
}

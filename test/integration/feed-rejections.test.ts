import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { Feed } from '../../operator/xds/feed.ts'
import { createResource, createSnapshot } from '../../operator/xds/snapshot.ts'
import { freePorts } from '../support/free-ports.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import type { Cleanup } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const uid = 'the-only-process'

function resource(domain: string, unit: RateLimitUnit, requestsPerUnit: number) {
  const rateLimit = { unit, requestsPerUnit }
  const config = create(RateLimitConfigSchema, {
    name: domain,
    domain,
    descriptors: [{ key: 'user', rateLimit }],
  })
  return createResource(domain, toBinary(RateLimitConfigSchema, config))
}

/** Starts the operator's feed on a port. The unit UNKNOWN makes the limit of the domain `shop` wrong. */
async function startOperator(t: Cleanup, port: number) {
  let streams = 0
  const ids = () => `${++streams}`
  const feed = new Feed({ typeUrls: [rateLimitTypeUrl], ids, clock: systemClock, log: silentLog })
  const server = createGrpcServer({ methods: feed.methods, onDefect: error => assert.fail(`${error}`) })
  await server.listen({ host: '127.0.0.1', port })
  const stop = async () => {
    feed.close()
    await server.drain(0)
  }
  t.after(stop)
  return {
    stop,
    /** The process has a stream at this operator. */
    connected: () => waitFor('the process to connect', () => feed.clients().length > 0),
    publish(unit: RateLimitUnit, requestsPerUnit: number) {
      const shop = resource('shop', unit, requestsPerUnit)
      const bank = resource('bank', RateLimitUnit.HOUR, 1)
      feed.publish(createSnapshot(rateLimitTypeUrl, [shop, bank]))
      return {
        rejected: () =>
          waitFor(
            'the rejection',
            () => feed.enforcement(rateLimitTypeUrl, [uid])(shop).rejections.length > 0,
          ),
        acknowledged: () =>
          waitFor('the acknowledgement', () =>
            [shop, bank].every(each => feed.enforcement(rateLimitTypeUrl, [uid])(each).acknowledged.has(uid)),
          ),
      }
    },
  }
}

test('a fix is in force after a rejection, also at an operator that took over', async t => {
  const [port = 0] = await freePorts(1)
  const operator = await startOperator(t, port)
  const { HOUR, UNKNOWN } = RateLimitUnit
  const good = operator.publish(HOUR, 1)
  const service = await startRateLimit(t, {
    BACKEND_TYPE: 'memory',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
    CONFIG_GRPC_XDS_NODE_METADATA: `uid:${uid}`,
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '100ms',
  })
  await service.serves()
  await good.acknowledged()
  const shown = async () => (await fetch(`http://127.0.0.1:${service.debugPort}/rlconfig`)).text()

  async function fix({ publish }: typeof operator, requestsPerUnit: number): Promise<void> {
    await publish(HOUR, requestsPerUnit).acknowledged()
    assert.match(await shown(), new RegExp(`shop\\.user: unit=HOUR requests_per_unit=${requestsPerUnit},`))
  }

  await operator.publish(UNKNOWN, 2).rejected()
  await fix(operator, 3)

  await operator.publish(UNKNOWN, 4).rejected()
  await operator.stop()
  const next = await startOperator(t, port)
  next.publish(UNKNOWN, 4)
  await next.connected()
  await fix(next, 5)
})

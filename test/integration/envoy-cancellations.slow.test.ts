import assert from 'node:assert/strict'
import { Agent, get } from 'node:http'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { AnyMethod } from '@tollway/grpc/server.ts'
import {
  RateLimitResponse_Code as Code,
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { startEnvoy } from '../support/envoy.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

/** Concurrent calls of 20 ms each: at most 5,000 cancellations a second, half of a hostile rate. */
const callsAtOnce = 100
/** The domain of the example's Envoy. */
const domain = 'checkout'

/** Starts the sidecar of the examples with a timeout of 20 ms, with one worker and so one connection. */
async function openEnvoy(t: TestContext, servicePort: number) {
  const { ingressPort, adminPort } = await startEnvoy(t, servicePort, {
    concurrency: 1,
    change(config) {
      assert.match(config, /timeout: 0\.020s/)
      return config
    },
  })
  const agent = new Agent({ keepAlive: true, maxSockets: callsAtOnce })
  t.after(() => agent.destroy())

  /** The status code of one request. */
  function call(): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      get({ port: ingressPort, agent, headers: { 'x-user': 'alice' } }, response => {
        response.resume().once('end', () => resolve(response.statusCode))
      }).once('error', reject)
    })
  }

  return {
    call,
    async stats(): Promise<ReadonlyMap<string, number>> {
      const text = await (await fetch(`http://127.0.0.1:${adminPort}/stats?filter=^cluster`)).text()
      return new Map(
        text.split('\n').map(line => {
          const [name = '', value = ''] = line.split(': ')
          return [name, Number(value)]
        }),
      )
    },
  }
}

/** A service that answers until it is silenced, and answers again later. */
interface Service {
  readonly port: number
  stall(): void
  resume(): void
}

/**
 * Asserts that Envoy resets streams without an answer, and then gets answers over the connection that it had
 * at the beginning.
 */
async function keepsConnection(t: TestContext, service: Service, cancellations: number): Promise<void> {
  const { call, stats } = await openEnvoy(t, service.port)
  const stat = async (name: string) => (await stats()).get(`cluster.${name}`) ?? 0
  const answers = async () => (await stat('app.ratelimit.ok')) + (await stat('app.ratelimit.over_limit'))
  async function answersCome(): Promise<void> {
    const before = await answers()
    await waitFor('an answer', async () => (await call()) && (await answers()) > before)
  }

  await answersCome()
  service.stall()
  // Sometimes the service notices first that a call is late, and answers it.
  await waitFor(
    `${cancellations} cancellations`,
    async () => {
      const codes = await Promise.all(Array.from({ length: 1000 }, call))
      assert.deepEqual([...new Set(codes)], [200], 'Envoy lets calls without a decision pass')
      return (await stat('ratelimit.http2.tx_reset')) >= cancellations
    },
    60_000,
  )

  service.resume()
  await answersCome()
  assert.equal(await stat('ratelimit.upstream_cx_total'), 1, 'no other connection was made')
  assert.equal(await stat('ratelimit.upstream_cx_close_notify'), 0, 'no GOAWAY was received')
}

test('5,000 calls that Envoy cancels cost no connection of a handler that waits', async t => {
  if (!requireProgram(t, 'envoy')) return
  let gate: PromiseWithResolvers<void> | undefined
  const peers = new Set<string>()
  const method: AnyMethod = {
    path: '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
    kind: 'unary',
    decode: bytes => fromBinary(RateLimitRequestSchema, bytes),
    encode: message => toBinary(RateLimitResponseSchema, message),
    async handle(_, { peer, signal }) {
      peers.add(peer)
      const cancelled = new Promise(resolve => signal.addEventListener('abort', resolve))
      await Promise.race([gate?.promise, cancelled])
      return create(RateLimitResponseSchema, { overallCode: gate ? Code.OVER_LIMIT : Code.OK })
    },
  }
  const server = createGrpcServer({ methods: [method], onDefect: (_, error) => assert.fail(String(error)) })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  await keepsConnection(
    t,
    {
      port: bound.port,
      stall: () => (gate = Promise.withResolvers()),
      resume: () => gate?.resolve(),
    },
    5_000,
  )
  assert.equal(peers.size, 1)
})

test('200 calls that Envoy cancels cost no connection of a service whose Redis is paused', async t => {
  if (!requireProgram(t, 'envoy') || !requireProgram(t, 'redis-server')) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const { env } = rateLimitFiles(userLimit('100000/day').replace('shop', domain))
  const service = await startRateLimit(t, {
    ...env,
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL: `127.0.0.1:${redis.port}`,
    // The deadline is longer than Envoy's timeout, so that Envoy cancels.
    BACKEND_DEADLINE: '50ms',
  })
  await service.serves()
  await keepsConnection(
    t,
    {
      port: service.grpcPort,
      stall: () => void redis.kill('SIGSTOP'),
      resume: () => void redis.kill('SIGCONT'),
    },
    200,
  )
})

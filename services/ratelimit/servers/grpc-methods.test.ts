import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import {
  RateLimitResponse_Code as Code,
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponseSchema,
  RateLimitResponse_RateLimit_Unit as Unit,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import type { RateLimitUnit } from '@tollway/proto/envoy/type/v3/ratelimit_unit'
import { RateLimitService as KuadrantService } from '@tollway/proto/kuadrant/service/ratelimit/v1/ratelimit'
import { maxParts } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { rateLimitMethods } from './grpc-methods.ts'
import { openLimiter } from './testing/open-limiter.ts'

type Request = MessageInitShape<typeof RateLimitRequestSchema>

const codec: Codec<RateLimitResponse, Request> = {
  encode: message => toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, message)),
  decode: bytes => fromBinary(RateLimitResponseSchema, bytes),
}

const v3 = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

async function start(t: TestContext, opened: { readonly limiter: Limiter } = openLimiter()) {
  const { stats } = openLimiter()
  const defects: unknown[] = []
  const server = createGrpcServer({
    methods: rateLimitMethods({ limiter: opened.limiter, stats, clock: systemClock }),
    onDefect: (_, error) => defects.push(error),
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  const client = createGrpcClient(`127.0.0.1:${bound.port}`)
  t.after(async () => {
    client.close()
    await server.drain(0)
  })
  const ask = (request: Request, path = v3) => client.unary(path, codec, request)
  const rejection = async (request: Request, path = v3) => {
    const error: unknown = await ask(request, path).catch(reason => reason)
    assert.ok(error instanceof GrpcError, 'it was answered')
    return [error.code, error.message]
  }
  return { client, ask, rejection, stats, defects }
}

const user = (value: string, more: Record<string, unknown> = {}): Request => ({
  domain: 'd',
  descriptors: [{ entries: [{ key: 'user', value }], ...more }],
})

test('a call is answered with its limit, the remaining requests, and the end of the window', async t => {
  const { ask, stats } = await start(t)
  const first = await ask(user('a'))
  assert.equal(first.overallCode, Code.OK)
  const [status] = first.statuses
  assert.equal(status?.code, Code.OK)
  assert.equal(status?.limitRemaining, 0)
  assert.equal(status?.currentLimit?.name, 'x')
  assert.equal(status?.currentLimit?.unit, Unit.MINUTE)
  assert.equal(status?.durationUntilReset?.seconds, 42n)
  assert.equal((await ask(user('a'))).overallCode, Code.OVER_LIMIT)
  assert.equal(stats.counter('ratelimit_server.ShouldRateLimit.total_requests').value, 2)
})

test('hits come from the descriptor, else from the request, else they are one', async t => {
  const { ask } = await start(t)
  const week = (value: string) => ({ entries: [{ key: 'week', value }] })
  const cases: [Request, number][] = [
    [{ domain: 'd', descriptors: [week('1')] }, 4],
    [{ domain: 'd', descriptors: [week('2')], hitsAddend: 3 }, 2],
    [{ domain: 'd', descriptors: [{ ...week('3'), hitsAddend: 4n }], hitsAddend: 3 }, 1],
    [{ domain: 'd', descriptors: [{ ...week('4'), hitsAddend: 0n }], hitsAddend: 3 }, 5],
  ]
  for (const [request, remaining] of cases) {
    assert.equal((await ask(request)).statuses[0]?.limitRemaining, remaining)
  }
  const most = await ask({ domain: 'd', descriptors: [{ ...week('5'), hitsAddend: 2n ** 64n - 1n }] })
  assert.equal(most.overallCode, Code.OVER_LIMIT)
})

test('errors have the code and the text of the reference; an invalid request is explained', async t => {
  const { rejection, defects } = await start(t)
  const unit = 'descriptors[0].limit.unit must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR'
  const table: [Request, number, string][] = [
    [{ ...user('a'), domain: '' }, statusCodes.UNKNOWN, 'rate limit domain must not be empty'],
    [{ domain: 'd' }, statusCodes.UNKNOWN, 'rate limit descriptor list must not be empty'],
    [user('a', { limit: { requestsPerUnit: 1 } }), statusCodes.INVALID_ARGUMENT, unit],
    [
      user('a', { limit: { requestsPerUnit: 1, unit: 99 as RateLimitUnit } }),
      statusCodes.INVALID_ARGUMENT,
      unit,
    ],
  ]
  for (const [request, code, message] of table) assert.deepEqual(await rejection(request), [code, message])
  const failing = await start(t, openLimiter('CLUSTERDOWN The cluster is down'))
  assert.deepEqual(await failing.rejection(user('a')), [
    statusCodes.UNKNOWN,
    'CLUSTERDOWN The cluster is down',
  ])
  assert.deepEqual([...defects, ...failing.defects], [])
})

test('more descriptors and entries than allowed are rejected before they are decoded', async t => {
  const { ask, rejection } = await start(t)
  const entry = { key: 'user', value: '' }
  const withEntries = (count: number) => ({ entries: Array.from({ length: count }, () => entry) })
  const most = { domain: 'd', descriptors: [withEntries(maxParts / 2), withEntries(maxParts / 2 - 2)] }
  assert.equal((await ask(most)).overallCode, Code.OK)
  const tooMany = [
    statusCodes.INVALID_ARGUMENT,
    `descriptors: at most ${maxParts} and their entries are allowed`,
  ]
  assert.deepEqual(await rejection({ domain: 'd', descriptors: [withEntries(maxParts)] }), tooMany)
  const empty = Array.from({ length: maxParts + 1 }, () => ({}))
  assert.deepEqual(await rejection({ domain: 'd', descriptors: empty }), tooMany)
})

test('the old protocol is not implemented, and an internal error does not reveal its text', async t => {
  const limiter: Limiter = { decide: () => Promise.reject(new Error('secret')) }
  const { rejection, defects } = await start(t, { limiter })
  const [code] = await rejection(user('a'), v3.replace('v3', 'v2'))
  assert.equal(code, statusCodes.UNIMPLEMENTED)
  assert.deepEqual(await rejection(user('a')), [statusCodes.INTERNAL, 'internal error'])
  assert.equal(defects.length, 1)
})

test('malformed bytes are an error of that call only', async t => {
  const { client, ask, defects } = await start(t)
  const raw: Codec<RateLimitResponse, Uint8Array> = { ...codec, encode: bytes => bytes }
  for (const bytes of [Uint8Array.of(0xff), Uint8Array.of(0x0a, 5), Uint8Array.of(0x0a, 1, 0xff)]) {
    await assert.rejects(client.unary(v3, raw, bytes), { code: statusCodes.INTERNAL })
  }
  assert.equal((await ask(user('after'))).overallCode, Code.OK)
  assert.deepEqual(defects, [])
})

const { checkRateLimit, report } = KuadrantService.method
const pathOf = ({ name }: { readonly name: string }) => `/${KuadrantService.typeName}/${name}`

test("Kuadrant's check says whether one more hit would be admitted, and counts nothing", async t => {
  const { ask } = await start(t)
  const check = () => ask(user('a'), pathOf(checkRateLimit))
  for (let times = 0; times < 2; times++) {
    const free = await check()
    assert.deepEqual([free.overallCode, free.statuses[0]?.limitRemaining], [Code.OK, 1])
  }
  await ask(user('a'))
  const used = await check()
  assert.deepEqual([used.overallCode, used.statuses[0]?.limitRemaining], [Code.OVER_LIMIT, 0])
})

test("Kuadrant's report counts its hits beyond the limit, and is never rejected", async t => {
  const { ask, stats } = await start(t)
  const reported = await ask({ ...user('a'), hitsAddend: 7 }, pathOf(report))
  assert.deepEqual([reported.overallCode, reported.statuses[0]?.code], [Code.OK, Code.OK])
  assert.equal((await ask(user('a'), pathOf(checkRateLimit))).overallCode, Code.OVER_LIMIT)
  assert.equal(stats.counter('ratelimit_server.Report.total_requests').value, 1)
})

test("the errors of Kuadrant's methods are those of Envoy's", async t => {
  const { rejection } = await start(t)
  for (const method of [checkRateLimit, report]) {
    assert.deepEqual(await rejection({ domain: 'd' }, pathOf(method)), [
      statusCodes.UNKNOWN,
      'rate limit descriptor list must not be empty',
    ])
  }
})

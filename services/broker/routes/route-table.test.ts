import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import { defaultRoute } from './route.ts'
import { RouteTable, routeTypeUrl } from './route-table.ts'

type Message = MessageInitShape<typeof StreamRouteSchema>

function createResponse(...messages: readonly Message[]) {
  return {
    typeUrl: routeTypeUrl,
    resources: messages.map(message => ({
      typeUrl: routeTypeUrl,
      value: toBinary(StreamRouteSchema, create(StreamRouteSchema, message)),
    })),
  }
}

const prefixed = (name: string, streamIdPrefix: string): Message => ({ name, match: { streamIdPrefix } })
const ids = { sourceServiceId: '', streamId: 'game-1', targetObjectId: '' }

function open() {
  const errors: string[] = []
  const log: Log = {
    ...silentLog,
    error: (message, fields) => void errors.push(`${message}: ${fields?.['reason']}`),
  }
  const table = new RouteTable({ clock: systemClock, log })
  let changes = 0
  const stop = table.onChange(() => {
    changes += 1
  })
  const names = () => table.routes().map(({ name }) => name)
  return { table, errors, stop, names, changes: () => changes }
}

test('a load replaces all previous routes', async () => {
  const { table, names, changes, stop } = open()
  assert.equal(table.choose(ids), defaultRoute)
  assert.deepEqual(await table.load(createResponse(prefixed('shop/a', 'game-'), prefixed('shop/b', 'g'))), [])
  assert.equal(table.choose(ids).name, 'shop/a')
  await table.load(createResponse(prefixed('shop/b', 'g')))
  assert.deepEqual(names(), ['shop/b'])
  assert.equal(table.choose(ids).name, 'shop/b')
  assert.equal(changes(), 2)
  stop()
  await table.load(createResponse())
  assert.equal(table.choose(ids), defaultRoute)
  assert.equal(changes(), 2)
})

test('one invalid route rejects the load with every problem, and changes nothing', async () => {
  const { table, names, changes, errors } = open()
  await table.load(createResponse(prefixed('shop/a', 'game-')))
  const wrong = createResponse(
    prefixed('shop/b', 'x'),
    { name: 'shop/c', slowConsumers: 'kill', lateJoiners: 'never' },
    { name: 'shop/b' },
  )
  const problems = await table.load({
    ...wrong,
    resources: [...wrong.resources, { typeUrl: 'type.googleapis.com/other.Type', value: new Uint8Array() }],
  })
  assert.deepEqual(problems, [
    'shop/c: lateJoiners: "never" is not allowed: one of now, start, last',
    'shop/c: slowConsumers: "kill" is not allowed: one of wait, drop-oldest, cut-off',
    'shop/b: expected one resource with this name, got two',
    `resources[3]: its type is 'type.googleapis.com/other.Type', not ${routeTypeUrl}`,
  ])
  assert.deepEqual(
    errors,
    problems.map(problem => `load routes failed: ${problem}`),
  )
  assert.deepEqual(names(), ['shop/a'])
  assert.equal(changes(), 1)
})

test('an empty response of another type does not remove the routes', async () => {
  const { table, names } = open()
  await table.load(createResponse(prefixed('shop/a', 'game-')))
  const problems = await table.load({ typeUrl: 'type.googleapis.com/other.Type', resources: [] })
  assert.match(problems.join(), /^response: its type is/)
  assert.deepEqual(names(), ['shop/a'])
})

test('only the first of many problems are reported', async () => {
  const { table, errors } = open()
  const wrong = Array.from({ length: 1000 }, (_, index) => ({ name: `shop/r${index}`, slowConsumers: 'x' }))
  assert.equal((await table.load(createResponse(...wrong))).length, 100)
  assert.equal(errors.length, 21)
  assert.equal(errors.at(-1), 'load routes failed: 80 more problems')
})

test('10,000 routes are loaded without blocking the event loop', async t => {
  const { table } = open()
  const many = createResponse(
    ...Array.from({ length: 10_000 }, (_, index) => prefixed(`shop/r${index}`, `stream-${index}-`)),
  )
  let [lastMs, longestMs] = [process.cpuUsage(), 0]
  let turning = true
  const turn = () => {
    const { user, system } = process.cpuUsage(lastMs)
    lastMs = process.cpuUsage()
    longestMs = Math.max(longestMs, (user + system) / 1000)
    if (turning) setImmediate(turn)
  }
  turn()
  assert.deepEqual(await table.load(many), [])
  turning = false
  turn()
  t.diagnostic(`the longest turn took ${longestMs.toFixed(1)} ms of CPU`)
  assert.equal(table.choose({ ...ids, streamId: 'stream-77-x' }).name, 'shop/r77')
  assert.ok(longestMs < 100, `a turn took ${longestMs} ms`)
})

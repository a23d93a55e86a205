import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { calendarOf } from '@tollway/ratelimit/rules/calendar/calendar.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { runCommand } from '../../operator/cli/run-command.ts'
import {
  encodeRateLimitDomain,
  rateLimitTypeUrl,
} from '../../operator/kinds/rate-limit-config/encode-rate-limit-domain.ts'
import { translateRateLimitConfig } from '../../operator/kinds/rate-limit-config/translate-rate-limit-config.ts'
import { createFeed } from '../../operator/xds/server.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { freePorts } from '../support/free-ports.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const examples = join(root, 'examples/limits')
const folders = readdirSync(examples)

async function run(...args: readonly string[]) {
  let out = ''
  const add = (text: string) => {
    out += text
  }
  const code = await runCommand(args, { print: add, printError: add })
  return { code, out }
}

function contentOf(folder: string) {
  const resource = load(readFileSync(join(examples, folder, 'limits.yaml'), 'utf8'), { schema: CORE_SCHEMA })
  const made = translateRateLimitConfig(`default/${folder}`, resource)
  assert.ok('value' in made, JSON.stringify(made))
  return made.value
}

/** An entry, the end of the line with its limit, and the length of its window in seconds if that is fixed. */
const limits: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  windows: [
    ['user=alice', '(named per-user): 10/15 seconds'],
    ['export=acme', '(named exports): 1000/2 weeks'],
  ],
  calendar: [
    ['reset=alice', '3/day of Europe/Copenhagen'],
    ['letter=acme', '100/week of America/New_York'],
    ['plan=acme', '100000/month of Asia/Tokyo'],
    ['budget=acme', '5000/3 months of UTC'],
  ],
}

test('each example is valid, and tollway try shows its windows', async () => {
  assert.deepEqual(folders.toSorted(), Object.keys(limits).toSorted())
  for (const folder of folders) {
    const path = join(examples, folder)
    assert.deepEqual((await run('validate', '-f', path)).code, 0)
    for (const [entry, expected] of limits[folder] ?? []) {
      const { code, out } = await run('try', '-f', path, '-d', folder, '-e', entry)
      assert.equal(code, 0, out)
      assert.ok(out.includes(`${expected}\n`), out)
      assert.match(out, /window from [-0-9]+T[0-9:]+Z to [-0-9]+T[0-9:]+Z\n/)
    }
  }
})

test('a process lists its features, gets the examples from the feed, and enforces them', async t => {
  const [port = 0] = await freePorts(1)
  let streams = 0
  const ids = () => `${++streams}`
  const feed = createFeed({ typeUrls: [rateLimitTypeUrl], ids, clock: systemClock, log: silentLog })
  const server = createGrpcServer({ methods: feed.methods, onDefect: error => assert.fail(`${error}`) })
  await server.listen({ host: '127.0.0.1', port })
  t.after(async () => {
    feed.close()
    await server.drain(0)
  })
  const resources = folders.map(contentOf).map(encodeRateLimitDomain)
  feed.publish(createSnapshot(rateLimitTypeUrl, resources))
  const service = await startRateLimit(t, {
    BACKEND_TYPE: 'memory',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
    CONFIG_GRPC_XDS_NODE_METADATA: 'uid:pod',
  })
  await service.serves()
  await waitFor('the acknowledgement', () =>
    resources.every(each => feed.enforcement(rateLimitTypeUrl, ['pod'])(each).acknowledged.has('pod')),
  )
  const rules = await (await fetch(`http://127.0.0.1:${service.debugPort}/rlconfig`)).text()
  assert.match(rules, /windows\.user: unit=SECOND requests_per_unit=10 unit_multiplier=15, shadow_mode/)
  assert.match(
    rules,
    /budget: unit=MONTH requests_per_unit=5000 unit_multiplier=3 time_zone=UTC anchor_month=2 tzdata=/,
  )

  const codes: number[] = []
  const windows = calendarOf({ unit: 'day', timeZone: 'Europe/Copenhagen' })
  const dayAt = () => windows.windowAt(Math.floor(Date.now() / 1000)).start
  const day = dayAt()
  for (let call = 0; call < 4; call += 1) codes.push(await service.ask('calendar', 'reset', 'alice'))
  if (dayAt() === day) assert.deepEqual(codes, [200, 200, 200, 429])
})

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { executeCommand } from '@tollway/chassis/command-line/run-command.ts'
import type { SourceProblem } from '../../kinds/source.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import type { StatusReport } from '../../status/status-report.ts'
import { createPersistenceFilter, statusCommand } from './status.ts'

const condition = (type: string) => ({
  type,
  status: 'True' as const,
  reason: 'Enforced',
  message: '',
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00.000Z',
})

function resource(
  kind: string,
  name: string,
  subject: string,
  counts: ResourceStatus['counts'],
): ResourceStatus {
  const conditions = ['Accepted', 'Programmed', 'Enforced', 'Ready'].map(condition)
  const place = { namespace: 'shop', uid: name, origin: `shop/${name}`, observedGeneration: 1 }
  return { kind, name, subject, counts, ...place, enforced: '2/2', problems: [], conditions }
}

const merchant: ResourceStatus = {
  ...resource('Merchant', 'till', 'DKK test', {}),
  enforced: '',
  details: { merchantId: 'm-1' },
  conditions: ['Accepted', 'Synced', 'CredentialsReady', 'Ready'].map(condition),
}

const replica = { name: 'ratelimit-0', uid: 'a', ready: true, reason: '', restarts: 0, addresses: {} }
const report: StatusReport = {
  pid: 1,
  updatedAt: '2026-01-01T00:00:00.000Z',
  folder: '',
  addresses: {},
  resources: [],
  replicas: [replica],
  problems: [],
}

/** Returns the lines that the command prints for the report of an operator. */
async function printed(resources: readonly ResourceStatus[]): Promise<readonly string[]> {
  const pages = createServer((_, response) => response.end(JSON.stringify({ ...report, resources })))
  await once(pages.listen(0, '127.0.0.1'), 'listening')
  const { port } = pages.address() as AddressInfo
  let out = ''
  const print = (text: string) => {
    out += text
  }
  try {
    const code = await executeCommand(
      statusCommand,
      'tollway status',
      ['--operator', `http://127.0.0.1:${port}`],
      {
        print,
        printError: print,
      },
    )
    assert.equal(code, 0, out)
  } finally {
    pages.close()
    pages.closeAllConnections()
  }
  return out.split('\n')
}

test('status prints a table for each kind, with its counts', async () => {
  const lines = await printed([
    resource('RateLimitConfig', 'checkout', 'checkout', { rules: 4 }),
    resource('AnimationStreamRoute', 'kiosk', 'kiosk-', { activeStreams: 3, consumers: 12 }),
    merchant,
  ])
  assert.deepEqual(
    lines.slice(0, 8).map(line => line.split(/ {2,}/).join(' | ')),
    [
      'KIND | NAME | DOMAIN | RULES | ACCEPTED | PROGRAMMED | ENFORCED | READY',
      'RateLimitConfig | shop/checkout | checkout | 4 | True | True | 2/2 | True',
      '',
      'KIND | NAME | PREFIX | STREAMS | CONSUMERS | ACCEPTED | PROGRAMMED | ENFORCED | READY',
      'AnimationStreamRoute | shop/kiosk | kiosk- | 3 | 12 | True | True | 2/2 | True',
      '',
      'KIND | NAME | CURRENCY | MERCHANT | ACCEPTED | SYNCED | CREDENTIALS | READY',
      'Merchant | shop/till | DKK test | m-1 | True | True | True | True',
    ],
  )
})

test('status without resources prints the heading of the table and a note', async () => {
  const lines = await printed([])
  assert.match(lines[0] ?? '', /^KIND +NAME +DOMAIN/)
  assert.ok(lines.some(line => line.startsWith('No resource is in force')))
})

const problem = (obstacle?: SourceProblem['obstacle']): SourceProblem => ({
  origin: 'payments',
  message: 'there is no Secret',
  ...(obstacle && { obstacle }),
})
const failed = problem({ attempt: 'failed' })
const waiting = problem({ attempt: 'waiting' })

/**
 * Each case has the problem of the report in each second, and the first second in which the problem has
 * lasted for 15 s.
 */
const histories: readonly (readonly [
  what: string,
  at: (second: number) => SourceProblem | undefined,
  lasts: number | undefined,
])[] = [
  ['a problem that may end by itself', () => problem(), undefined],
  ['an obstacle from the start', () => problem({}), 15],
  ['an obstacle that ends in time', second => (second < 14 ? problem({}) : undefined), undefined],
  ['a container that runs for a moment', second => (second % 10 < 7 ? problem({}) : undefined), 15],
  [
    'an obstacle that was absent for longer',
    second => (second < 3 || second > 10 ? problem({}) : undefined),
    26,
  ],
  ['a second attempt that takes long', second => (second < 10 ? failed : waiting), undefined],
  ['a second attempt that fails', second => (second < 10 || second > 28 ? failed : waiting), 29],
]

for (const [what, at, lasts] of histories) {
  test(`the grace ends the wait for ${what} ${lasts === undefined ? 'never' : `after ${lasts} s`}`, () => {
    const filter = createPersistenceFilter(15_000)
    const seconds = Array.from({ length: 60 }, (_, second) => second)
    const found = seconds.find(second => {
      const present = at(second)
      return filter(present === undefined ? [] : [present], second * 1000).length > 0
    })
    assert.equal(found, lasts)
  })
}

test('no problem ends the wait without a grace', () => {
  const filter = createPersistenceFilter(undefined)
  assert.deepEqual(
    [0, 60_000].flatMap(nowMs => filter([problem({})], nowMs)),
    [],
  )
})

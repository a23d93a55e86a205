import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { startUnderAttack } from './service-under-attack.ts'

const runs = Number(process.env['FC_RUNS'] ?? 600)
const seed = Number(process.env['FC_SEED'] ?? (process.env['SOAK'] === '1' ? Date.now() % 2 ** 31 : 1))
const inFlight = 20

const valid = [
  '{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"x"}]}]}',
  '{"domain":"d","hits_addend":2,"descriptors":[{"entries":[{"key":"named","value":"\\u00e9"}],"hitsAddend":"3"},' +
    '{"entries":[],"limit":{"requestsPerUnit":3,"unit":"DAY"}}]}',
]

const pieces = [
  ...'{}[]":,\\ \n\t\0-0/',
  ...[
    'null',
    'true',
    '1e400',
    '-0',
    '18446744073709551616',
    '"__proto__":{}',
    '"constructor":1,',
    '\\ud800',
    '\ufeff',
  ],
  ...['[[[[', '{"domain":', '"entries":[],', '//', '1.5', '""'],
]

const mutated = fc
  .tuple(
    fc.constantFrom(...valid),
    fc.array(
      fc.record({
        at: fc.nat(300),
        drop: fc.nat(4),
        put: fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 3, unit: 'binary' })),
        times: fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, fc.nat(2000)),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  )
  .map(([body, edits]) => {
    let text = body
    for (const { at, drop, put, times } of edits) {
      const place = at % (text.length + 1)
      text = text.slice(0, place) + put.repeat(times) + text.slice(place + drop)
    }
    return text
  })

async function post(port: number, body: string | Uint8Array<ArrayBuffer>): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/json`, { method: 'POST', body })
  await response.arrayBuffer()
  return response.status
}

test(`${runs} mutated bodies of /json are answered or rejected (FC_SEED=${seed})`, {
  timeout: 7_200_000,
}, async t => {
  const service = await startUnderAttack(t)
  const seen = new Map<number, number>()
  for (let done = 0; done < runs; done += inFlight) {
    const bodies = fc.sample(mutated, { seed: seed + done, numRuns: inFlight })
    for (const status of await Promise.all(bodies.map(body => post(service.process.httpPort, body)))) {
      assert.ok([200, 400, 429].includes(status), `${status}`)
      seen.set(status, (seen.get(status) ?? 0) + 1)
    }
  }
  tell(t, seen)
  assert.ok(seen.size === 3 || runs < 500, 'the test covers too little')
  await service.check()
})

function tell(t: TestContext, seen: ReadonlyMap<number, number>): void {
  t.diagnostic([...seen].map(([status, count]) => `${count} × ${status}`).join(', '))
}

import assert from 'node:assert/strict'
import { readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { waitFor } from '../support/wait-for.ts'
import { startUnderAttack } from './service-under-attack.ts'

const lines = (count: number, line: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => line(index)).join('\n')

/** Files, and the log of each. The tests of the parser bound its cost. */
const files: readonly (readonly [name: string, text: string | { readonly bytes: number }, said: RegExp])[] = [
  ['100 MB of one text', { bytes: 100_000_000 }, /at most \d+/],
  ['a billion laughs', `a: &a0 [x, x]\n${lines(60, i => `b${i}: &a${i + 1} [*a${i}, *a${i}]`)}`, /aliases/],
  ['10,000 levels', `domain: ${'['.repeat(10_000)}`, /yaml: line \d+: /],
  ['10,000 levels of maps', `domain: ${'{a: '.repeat(10_000)}`, /yaml: line \d+: /],
  [
    'a merge bomb',
    `b: &b {${lines(500, i => ` k${i}: 1,`)}}\n${lines(500, i => `m${i}: {<<: *b}`)}`,
    /merge/,
  ],
  ['many documents', '---\n'.repeat(100_000), /too many documents/],
  ['20,000 mistakes', `domain: e\n${lines(20_000, i => `k${i}: 1`)}`, /unknown key 'k0'/],
  ['forged log lines', 'domain: "a\\nlevel=error msg=forged"\nunknown\u2028key: 1', /unknown key/],
]

/** The most memory that rejected files may leave, including garbage. */
const maxGrowthBytes = 128 * 1024 * 1024

test('hostile files are rejected, and the active configuration stays in force', async t => {
  const service = await startUnderAttack(t)
  const { program } = service.process
  const errors = async () => (await service.process.stats())['ratelimit.service.config_load_error'] ?? 0
  const startBytes = residentBytes(program.pid)
  for (const [name, text, said] of files) {
    await t.test(name, async () => {
      const [before, earlier] = [await errors(), program.output().length]
      const path = join(service.configFolder, 'hostile.yaml')
      const aside = `${service.configFolder}-aside.yaml`
      writeFileSync(aside, typeof text === 'string' ? text : '')
      if (typeof text !== 'string') truncateSync(aside, text.bytes)
      renameSync(aside, path)
      await waitFor('the rejection', async () => (await errors()) > before)
      const log = program.output().slice(earlier)
      assert.match(log, said)
      assert.ok(log.length < 200_000, `${log.length} characters were logged`)
      for (const line of log.trimEnd().split('\n'))
        assert.match(line, /^time=\S+ level=\w+ msg=[^\r\u2028]*$/)
      const entries = [{ key: 'user', value: name }]
      const { statuses } = await service.caller.shouldRateLimit({ domain: 'd', descriptors: [{ entries }] })
      assert.equal(statuses[0]?.limitRemaining, 4)
      rmSync(path)
      await waitFor('the file to be removed', () =>
        program.output().slice(earlier).includes('load configuration"'),
      )
    })
  }
  const grownBytes = residentBytes(program.pid) - startBytes
  assert.ok(grownBytes < maxGrowthBytes, `it grew by ${grownBytes} bytes`)
})

/** Returns the resident memory of a process on Linux; 0 elsewhere. */
function residentBytes(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

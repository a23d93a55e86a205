import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { callRateLimit, type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { Cleanup } from '../support/tollway.ts'

const configuration = `
domain: d
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: named, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: __proto__, value: constructor, rate_limit: {unit: year, requests_per_unit: 5}}
  - key: level
    descriptors:
      - {key: user, value: "a*", share_threshold: true, rate_limit: {unit: year, requests_per_unit: 5}}
`

/** More log lines than this would be a flood. */
const maxLogLines = 20

/** The service with counters in memory, and its invariants under any input. */
export interface ServiceUnderAttack {
  readonly process: RateLimitProcess
  /** The folder of its configuration, which is read again when a file changes. */
  readonly configFolder: string
  readonly caller: ReturnType<typeof callRateLimit>
  /**
   * Checks that it runs and serves others, that its log has few lines, all intact, and that `/stats` has one
   * series per line.
   */
  check(): Promise<void>
  /** Returns the text of `/stats`. */
  statsText(): Promise<string>
}

export async function startUnderAttack(t: Cleanup): Promise<ServiceUnderAttack> {
  const folder = temporaryFolder('tollway-hostile')
  const configFolder = join(folder, 'config')
  mkdirSync(configFolder)
  writeFileSync(join(configFolder, 'limits.yaml'), configuration)
  const process = await startRateLimit(t, {
    RUNTIME_ROOT: folder,
    RUNTIME_WATCH_ROOT: 'false',
    BACKEND_TYPE: 'memory',
    DISABLE_STATS: 'true',
    LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
    RESPONSE_DYNAMIC_METADATA: 'true',
  })
  await process.serves()
  const caller = callRateLimit(t, process.grpcPort)
  let checks = 0
  const statsText = async () => (await fetch(`http://127.0.0.1:${process.debugPort}/stats`)).text()
  return {
    process,
    configFolder,
    caller,
    statsText,
    async check() {
      const entries = [{ key: 'user', value: `neighbour ${checks++}` }]
      const { statuses } = await caller.shouldRateLimit({ domain: 'd', descriptors: [{ entries }] })
      assert.equal(statuses[0]?.limitRemaining, 4, 'another caller is served')
      assert.equal(await process.health(), 200)
      const lines = process.program.output().trimEnd().split('\n')
      assert.ok(
        lines.length <= maxLogLines,
        `${lines.length} lines were logged:\n${lines.slice(0, 30).join('\n')}`,
      )
      for (const line of lines) assert.match(line, /^time=\S+ level=\w+ msg=[^\r]*$/)
      for (const line of (await statsText()).trimEnd().split('\n'))
        assert.match(line, /^[^\p{Cc}]+: [\d.e+-]+$/u)
    },
  }
}
